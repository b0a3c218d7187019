"""SHA-256 fingerprints of what makes a model answer as it does."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specdecode.errors import ModelNotFoundError
from specdecode.models.source import DRAFT_VOCABULARY, MODEL_FILE_PATTERNS, resolve_source

_TOKENIZER_PREFIXES = (
    "tokenizer",
    "special_tokens_map",
    "added_tokens",
    "vocab.",
    "merges.txt",
)
_CONFIG_FILES = ("config.json", "generation_config.json", DRAFT_VOCABULARY)


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 (hex) of each part of a model folder.

    Attributes:
        weights: over the safetensors files, by name and content.
        tokenizer: over the tokenizer files.
        chat_template: over the chat template's text, wherever the folder keeps it.
        config: over config.json, generation_config.json and a draft's list of tokens.
    """

    weights: str
    tokenizer: str
    chat_template: str
    config: str

    def to_json(self) -> dict[str, str]:
        """The four digests as a plain dict."""
        return asdict(self)


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's content, hex, read in blocks so that size does not matter."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint_folder(folder: Path | str) -> Fingerprint:
    """Fingerprint a Hugging Face model folder.

    Raises:
        ModelNotFoundError: the folder is not a model folder.
    """
    source = resolve_source(str(folder))
    if source.kind != "folder":
        raise ModelNotFoundError(f"'{folder}' is a file; convert it to a folder first")
    weights = [f for f in source.files if ".safetensors" in f.name]
    tokenizer = [f for f in source.files if f.name.startswith(_TOKENIZER_PREFIXES)]
    config = [f for f in source.files if f.name in _CONFIG_FILES]
    return Fingerprint(
        weights=_digest(weights),
        tokenizer=_digest(tokenizer),
        chat_template=hashlib.sha256(_chat_template(source.path).encode()).hexdigest(),
        config=_digest(config),
    )


def tokenizer_sha256(folder: Path | str) -> str:
    """The tokenizer's part of `fingerprint_folder`, for a folder that may lack weights."""
    known = {f for pattern in MODEL_FILE_PATTERNS for f in Path(folder).glob(pattern)}
    return _digest([f for f in known if f.name.startswith(_TOKENIZER_PREFIXES)])


def _digest(files: list[Path]) -> str:
    """One digest over (name, content digest) pairs; an absent part hashes the empty list."""
    lines = [f"{sha256_file(f)}  {f.name}\n" for f in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _chat_template(folder: Path) -> str:
    """The template's text: its own file in newer folders, a tokenizer setting in older ones."""
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        return own_file.read_text(encoding="utf-8")
    settings = folder / "tokenizer_config.json"
    if settings.is_file():
        loaded: dict[str, Any] = json.loads(settings.read_text(encoding="utf-8"))
        return json.dumps(loaded.get("chat_template", ""), sort_keys=True)
    return ""
