"""Results kept one file each, so that a run that was cut off goes on from what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import specdecode
from pipelines.digests import sha256_json, sha256_tree
from specdecode.durable import written_whole

_CODE = ("audit", "decoding", "drafting", "models", "verification")


def code_sha256() -> str:
    """One digest of the code that decodes and audits: a result of other code is of no use."""
    folder = Path(str(specdecode.__file__)).parent
    return sha256_json({name: sha256_tree(folder / name, (".py",)) for name in _CODE})


def kept(path: Path, settings: dict[str, Any]) -> Any | None:
    """A result made under these settings, or None; one of other settings is of no use."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or document.get("settings") != settings:
        return None
    return document.get("result")


def keep(path: Path, settings: dict[str, Any], result: Any) -> None:
    """Keeps a result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"settings": settings, "result": result}) + "\n"
    with written_whole(path) as file:
        file.write(text.encode())
