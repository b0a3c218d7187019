"""Stage `draft`: what proposes tokens, frozen and fingerprinted.

A draft made from the target (quantised, cut short) or from the prompt ships nothing: its manifest
says how it comes about and from which weights. A draft with weights of its own is converted like a
target and must read the target's tokens.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pipelines.stages.command import parameters, read_json, run, write_json
from specdecode.errors import ModelMismatchError
from specdecode.models import convert_source, fingerprint_folder
from specdecode.models.source import is_derived

FOLDER = Path("models/draft")
OUTPUT = FOLDER / "manifest.json"
MODEL = FOLDER / "model"
TARGET = "models/target"


def main() -> None:
    """Writes models/draft."""
    source = parameters()["draft"]["source"]
    shutil.rmtree(MODEL, ignore_errors=True)
    if not is_derived(source):
        convert_source(source, MODEL)
        check_vocabulary(TARGET, MODEL)
        made_of, folder = fingerprint_folder(MODEL).to_json(), str(MODEL)
    else:
        made_of, folder = read_json("reports/state/target.json"), None
    write_json(
        OUTPUT,
        {
            "schema": "specdecode.draft/1",
            "kind": "model" if folder else "derived",
            "source": source,
            "folder": folder,
            "fingerprint": made_of,
        },
    )


def engine_spec(manifest: dict[str, Any]) -> str | None:
    """Returns what the engine takes as its draft: a folder, or the name of a derived draft."""
    spec: str | None = manifest["folder"] or manifest["source"]
    return spec


def check_vocabulary(target: Path | str, draft: Path | str) -> None:
    """Refuses a draft whose tokens mean something else than the target's.

    Raises:
        ModelMismatchError: the vocabularies differ; names the first tokens that do.
    """
    ours, theirs = _vocabulary(target), _vocabulary(draft)
    if ours == theirs:
        return
    differing = sorted(
        token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token)
    )
    shown = ", ".join(
        f"{token!r} ({ours.get(token)} / {theirs.get(token)})" for token in differing[:3]
    )
    raise ModelMismatchError(
        f"target and draft have different tokenizers: {len(differing)} of {len(ours)} tokens "
        f"have another id in the draft or are missing on one side, e.g. {shown}. "
        "Set draft.source in params.yaml to a model of the target's family, or to self-int4."
    )


def _vocabulary(folder: Path | str) -> dict[str, int]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    return dict(tokenizer.get_vocab())


if __name__ == "__main__":
    run(main)
