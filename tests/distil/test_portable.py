"""The portable draft: a plain Llama folder for other programs, close to the one it is from."""

from __future__ import annotations

import json

import pytest
import torch

from specdecode.distil.portable import export
from specdecode.errors import ConfigError, ModelNotFoundError
from specdecode.models import load_model
from tests.distil.conftest import SYNTHESIS, TRAINING, VOCABULARY

SMALL = SYNTHESIS.model_copy(update={"tokens": 300, "held_out": 16, "shard": 16})
CUT = TRAINING.model_copy(update={"passes": 3, "head": 16})


@pytest.fixture(scope="module")
def cut(make, tmp_path_factory):
    """A draft that knows 16 of 22 tokens."""
    out = tmp_path_factory.mktemp("cut") / "draft"
    make(out, synthesis=SMALL, training=CUT)
    return out


@pytest.fixture(scope="module")
def exported(cut, target, tmp_path_factory):
    out = tmp_path_factory.mktemp("exported") / "portable"
    return out, export(target, cut, out, device="cpu", dtype="float32")


def test_it_is_a_plain_folder_over_the_whole_vocabulary(exported, target):
    out, _ = exported
    config = json.loads((out / "config.json").read_text())
    assert (config["model_type"], config["num_hidden_layers"]) == ("llama", 1)
    assert not (out / "draft_vocabulary.json").exists()
    assert (out / "tokenizer.json").read_bytes() == (target / "tokenizer.json").read_bytes()
    model = load_model(out, "cpu", "float32").module
    assert model.lm_head.weight.shape[0] == VOCABULARY
    assert bool(torch.isfinite(model(torch.tensor([[3, 4, 5]])).logits).all())


def test_trained_rows_stay_as_they_are(exported, cut):
    ids = json.loads((cut / "draft_vocabulary.json").read_text())["target_ids"]
    before, after = (load_model(f, "cpu", "float32").module for f in (cut, exported[0]))
    assert torch.equal(before.lm_head.weight[ids], after.lm_head.weight[ids])
    for name, value in before.model.state_dict().items():
        assert torch.equal(value, after.model.state_dict()[name])


def test_it_is_no_worse_than_the_cut_draft(exported):
    """Six tokens more can only help here, where nothing but the shift could spoil it."""
    found = exported[1]["evaluation"]["drafts"]
    gain = (
        found["exported"]["1"]["expected_acceptance"] - found["draft"]["1"]["expected_acceptance"]
    )
    assert gain > -0.01


@pytest.mark.parametrize("sample", [False, True])
def test_transformers_assisted_generation_takes_it(exported, target, sample):
    model, assistant = (load_model(f, "cpu", "float32").module for f in (target, exported[0]))
    prompt = torch.tensor([[2, 5, 6, 15]])
    options = {"max_new_tokens": 20, "eos_token_id": None, "pad_token_id": 0}
    torch.manual_seed(3)

    found = model.generate(prompt, assistant_model=assistant, do_sample=sample, **options)

    assert found.shape[1] > prompt.shape[1]
    if not sample:
        assert torch.equal(found, model.generate(prompt, do_sample=False, **options))


def test_a_full_head_is_copied(finished, target, tmp_path):
    report = export(target, finished[0], tmp_path / "out", device="cpu", dtype="float32")
    assert report["shift"] == 0
    drafts = report["evaluation"]["drafts"]
    assert drafts["exported"] == drafts["draft"]


def test_a_folder_in_use_is_not_written_into(cut, target, tmp_path):
    (tmp_path / "mine").write_text("")
    with pytest.raises(ConfigError, match="not empty: name a new folder"):
        export(target, cut, tmp_path, device="cpu", dtype="float32")


def test_a_draft_from_elsewhere_is_refused(target, tmp_path):
    with pytest.raises(ModelNotFoundError, match="no finished draft of `specdecode distil`"):
        export(target, target, tmp_path / "out", device="cpu", dtype="float32")
