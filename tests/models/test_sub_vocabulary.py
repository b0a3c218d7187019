"""Drafts that know a part of the vocabulary: exactly nothing outside it, and nothing lost by it."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from specdecode import Engine, SamplingParams
from specdecode.decoding.distributions import distributions
from specdecode.drafting import make_drafter, scoring_network
from specdecode.errors import ModelMismatchError
from specdecode.models import KVCache, fingerprint_folder, load_model
from specdecode.models.sub_vocabulary import SubVocabularyNetwork, draft_network
from specdecode.verification.exact import joint_law, sequence_law, total_variation
from specdecode.verification.exact_kernel import kernel_rule
from tests.decoding.toys import TableNetwork, V
from tests.tiny_models import WORDS, write_tiny_model

PROMPTS = [[5, 6, 7], [3, 4, 3, 4, 3, 4, 3], [9]]
KEPT = [9, 2, 17, 5, 20, 11, 3]
SIZE = 2 + len(WORDS)


def resized(folder, size):
    """Give a model another padded vocabulary size, with nothing else changed."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(9)
        model.resize_token_embeddings(size, mean_resizing=False)
    model.save_pretrained(folder)
    return folder


def listed(folder, ids):
    (folder / "draft_vocabulary.json").write_text(json.dumps({"target_ids": ids}))
    return folder


def loaded(folder):
    return load_model(folder, device="cpu", dtype="float64")


def forward(network, tokens):
    return network.forward(torch.tensor([tokens]), [0], KVCache(1, 20))[0]


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def target(kind, tmp_path_factory):
    return loaded(write_tiny_model(tmp_path_factory.mktemp("target"), kind, seed=1))


def test_the_head_is_cut_to_the_listed_rows(kind, target, tmp_path):
    folder = write_tiny_model(tmp_path, kind, seed=2)
    whole = forward(loaded(folder).network, [3, 21, 4])
    draft = loaded(listed(folder, KEPT))

    found = forward(draft_network(target, draft), [3, 21, 4])

    assert draft.module.get_output_embeddings().weight.shape[0] == len(KEPT)
    torch.testing.assert_close(found[:, KEPT], whole[:, KEPT])
    assert (found[:, sorted(set(range(SIZE)) - set(KEPT))] == float("-inf")).all()


@pytest.mark.parametrize("size", [SIZE + 3, SIZE])
def test_padding_of_another_size_does_not_matter(kind, tmp_path, size):
    """Sizes 22 and 25 with one tokenizer of 22 tokens, in both roles."""
    small = write_tiny_model(tmp_path / "small", kind, seed=2)
    large = resized(write_tiny_model(tmp_path / "large", kind, seed=2), SIZE + 3)
    target, draft = (loaded(f) for f in ((large, small) if size > SIZE else (small, large)))

    network = draft_network(target, draft)

    found = forward(network, [3, 21, 4])
    assert network.vocab_size == target.vocab_size == found.shape[1] == size
    torch.testing.assert_close(found[:, :SIZE], forward(draft.network, [3, 21, 4])[:, :SIZE])
    assert (found[:, SIZE:] == float("-inf")).all()


def test_a_token_the_draft_has_no_row_for_can_stand_in_the_context(kind, tmp_path):
    large = resized(write_tiny_model(tmp_path / "large", kind, seed=1), SIZE + 3)
    small = write_tiny_model(tmp_path / "small", kind, seed=2)
    target = loaded(large)
    params = SamplingParams(
        max_tokens=24, temperature=0, ignore_eos=True, logit_bias={SIZE + 1: 9.0}
    )
    plain = Engine.load(target).generate([[3, SIZE + 2, 4]], params)[0]
    assert SIZE + 1 in plain.token_ids

    result = Engine.load(target, str(small)).generate([[3, SIZE + 2, 4]], params)[0]

    assert result.token_ids == plain.token_ids


@pytest.mark.parametrize(
    "law",
    [
        {},
        {"temperature": 0.3},
        {"temperature": 0},
        {"top_k": len(KEPT) + 5},
        {"top_k": 2},
        {"top_p": 0.8},
        {"top_p": 1e-9},
        {"min_p": 0.1},
        {"repetition_penalty": 3.0},
        {"repetition_penalty": 0.5},
        {"presence_penalty": -2.0, "frequency_penalty": -1.5},
        {"logit_bias": {0: 50.0, 9: -3.0}},
        {"logit_bias": dict.fromkeys(KEPT, -1e4)},
    ],
    ids=str,
)
def test_every_parameter_leaves_exactly_nothing_outside(target, kind, tmp_path, law):
    draft = loaded(listed(write_tiny_model(tmp_path, kind, seed=2), KEPT))
    logits = forward(draft_network(target, draft), [3, 21, 4])
    params = SamplingParams(**law)

    found = distributions(logits, params, [[3, 0, 1, 9], [0, 0], [8]], 1)

    outside = sorted(set(range(SIZE)) - set(KEPT))
    assert (found[:, outside] == 0).all()
    torch.testing.assert_close(found.sum(-1), torch.ones(3, dtype=found.dtype))
    if not params.needs_history:  # a history is in the target's numbering
        bias = {KEPT.index(i): b for i, b in (params.logit_bias or {}).items() if i in KEPT}
        cut = params.model_copy(update={"logit_bias": bias or None})
        torch.testing.assert_close(found[:, KEPT], distributions(logits[:, KEPT], cut))


@pytest.mark.parametrize("rule", ["token", "block", "match"])
@pytest.mark.parametrize("gamma", [1, 3])
def test_verification_is_exact_with_a_draft_that_lacks_tokens(rule, gamma):
    target, part = TableNetwork(seed=1), TableNetwork(seed=2)
    network = SubVocabularyNetwork(part, [2, 0], V, V)

    def law_of(network):
        def law(prefix):
            row = forward(network, [0, 1, *prefix])[-1].double().softmax(-1)
            return tuple(row.tolist())

        return law

    draft = law_of(network)
    assert draft(())[1] == 0
    found = joint_law(kernel_rule(rule), law_of(target), draft, gamma)
    assert total_variation(found, sequence_law(law_of(target), gamma + 1)) < 1e-12


@pytest.mark.parametrize(
    ("rule", "law"),
    [
        ("block", {"temperature": 0}),
        ("token", {"temperature": 0, "repetition_penalty": 1.8, "logit_bias": {5: 4.0}}),
        ("match", {"temperature": 0.7, "top_k": len(KEPT) + 4, "frequency_penalty": 0.4}),
        ("match", {"temperature": 0.9, "top_p": 0.9, "min_p": 0.02}),
    ],
    ids=str,
)
def test_replies_are_plain_decodings_own(target, kind, tmp_path, rule, law):
    folder = listed(write_tiny_model(tmp_path, kind, seed=2), KEPT)
    params = SamplingParams(max_tokens=24, ignore_eos=True, seed=3, **law)
    plain = Engine.load(target).generate(PROMPTS, params)

    found = Engine.load(target, str(folder), verification=rule).generate(PROMPTS, params)

    assert [r.token_ids for r in found] == [r.token_ids for r in plain]


@pytest.mark.parametrize("rule", ["token", "block"])
def test_the_target_cut_to_where_its_mass_lies_is_always_accepted(target, kind, tmp_path, rule):
    folder = listed(write_tiny_model(tmp_path, kind, seed=1), KEPT)
    elsewhere = {i: -1e4 for i in range(SIZE) if i not in KEPT}
    params = SamplingParams(max_tokens=42, seed=1, ignore_eos=True, logit_bias=elsewhere)

    results = Engine.load(
        target, str(folder), verification=rule, num_speculative_tokens=4
    ).generate(PROMPTS, params)

    assert [r.acceptance.acceptance_rate for r in results] == [1.0] * len(PROMPTS)
    assert len(set(itertools.chain(*(r.token_ids for r in results)))) > 3
    assert set(itertools.chain(*(r.token_ids for r in results))) <= set(KEPT)


def test_the_audit_sees_the_cut_law(target, kind, tmp_path):
    folder = listed(write_tiny_model(tmp_path, kind, seed=2), KEPT)
    network = scoring_network(str(folder), target)
    assert (forward(network, [3, 4])[:, 0] == float("-inf")).all()


def test_the_list_is_part_of_the_models_fingerprint(tmp_path):
    folder = write_tiny_model(tmp_path)
    before = fingerprint_folder(folder)
    assert fingerprint_folder(listed(folder, KEPT)) != before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"target_ids": [3, 4, 3]}', "id 3 is listed twice"),
        ('{"target_ids": [3, 22]}', "id 22 is outside 0..21"),
        ('{"target_ids": [3, -1]}', "id -1 is outside"),
        ('{"target_ids": []}', "list of whole numbers"),
        ('{"target_ids": [true]}', "list of whole numbers"),
        ('{"target_ids": "3"}', "list of whole numbers"),
        ('{"ids": [3]}', "cannot be read"),
        ("[3]", "cannot be read"),
        ("{", "cannot be read"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused(target, kind, tmp_path, text, says):
    folder = write_tiny_model(tmp_path, kind)
    (folder / "draft_vocabulary.json").write_text(text)
    with pytest.raises(ModelMismatchError, match=says):
        make_drafter(str(folder), target)


def test_ids_must_be_known_to_both(kind, tmp_path):
    small = write_tiny_model(tmp_path / "small", kind)
    large = listed(resized(write_tiny_model(tmp_path / "large", kind), SIZE + 3), [3, SIZE])
    with pytest.raises(ModelMismatchError, match=r"id 22 is outside 0\.\.21"):
        make_drafter(str(large), loaded(small))


def test_a_smaller_draft_with_another_tokenizer_is_refused(kind, tmp_path):
    swapped = (*WORDS[1:], WORDS[0])
    small = write_tiny_model(tmp_path / "small", kind, words=swapped)
    target = loaded(resized(write_tiny_model(tmp_path / "large", kind), SIZE + 3))
    with pytest.raises(ModelMismatchError, match=r"different tokenizers.*first at id 2"):
        make_drafter(str(small), target)


def test_different_sizes_without_a_tokenizer_are_refused(kind, tmp_path):
    small = write_tiny_model(tmp_path / "small", kind)
    target = loaded(resized(write_tiny_model(tmp_path / "large", kind), SIZE + 3))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (small / name).unlink()
    with pytest.raises(ModelMismatchError, match=r"scores 25 tokens, draft .* 22"):
        make_drafter(str(small), target)
