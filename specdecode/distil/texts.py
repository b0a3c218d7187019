"""Shards of conversations with the target's law after each token, as files that resist damage.

A shard is a pair of files: `NAME.safetensors`, and `NAME.json` with its digest and counts, which is
written last. A shard without its page was cut short, and is made again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from specdecode.durable import written_whole
from specdecode.errors import EvidenceError

CONTEXT, WRITTEN_TURN, REPLY, GIVEN_TURN = 0, 1, 2, 3
"""Kinds of tokens: the template's, a user turn by the target, its reply, a turn from a file."""


@dataclass(frozen=True)
class Conversation:
    """One text.

    Attributes:
        tokens: int64 `[T]`.
        kinds: uint8 `[T]`.
        top_ids: int64 `[R, K]`, the target's most likely tokens at each of the R scored positions.
        top_probs: float32 `[R, K]`, their probabilities at temperature 1.
        tail: float32 `[R]`, probability of all others together.
    """

    tokens: Tensor
    kinds: Tensor
    top_ids: Tensor
    top_probs: Tensor
    tail: Tensor

    @property
    def scored(self) -> Tensor:
        """Int64 `[R]`: positions of the tokens that the target wrote; the law before is stored."""
        return scored_positions(self.kinds)

    def part(self, *kinds: int) -> list[int]:
        """Token ids of these kinds."""
        mask = torch.zeros_like(self.kinds, dtype=torch.bool)
        for kind in kinds:
            mask |= self.kinds == kind
        ids: list[int] = self.tokens[mask].tolist()
        return ids


def scored_positions(kinds: Tensor) -> Tensor:
    """Positions from 1 on whose token the target wrote, of kinds `[T]`."""
    written = (kinds == WRITTEN_TURN) | (kinds == REPLY)
    written[:1] = False  # nothing comes before it
    return written.nonzero()[:, 0]


def write_shard(
    folder: Path, name: str, texts: list[Conversation], facts: dict[str, Any]
) -> dict[str, Any]:
    """Write a shard; returns its page."""
    kept = texts[0].top_ids.shape[1] if texts else 1
    content = {
        "tokens": _joined([t.tokens for t in texts], torch.int32),
        "kinds": _joined([t.kinds for t in texts], torch.uint8),
        "lengths": torch.tensor([len(t.tokens) for t in texts], dtype=torch.int32),
        "top_ids": _joined([t.top_ids for t in texts], torch.int32, kept),
        # Half the memory; the relative error of 2^-11 is far below what a draft can learn.
        "top_probs": _joined([t.top_probs for t in texts], torch.float16, kept),
        "tail": _joined([t.tail for t in texts], torch.float32),
    }
    raw = save(content)
    with written_whole(folder / f"{name}.safetensors") as file:
        file.write(raw)
    page = {
        **facts,
        "name": name,
        "conversations": len(texts),
        "tokens": sum(len(t.scored) for t in texts),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    write_page(folder / f"{name}.json", page)
    return page


def read_shard(folder: Path, page: dict[str, Any]) -> list[Conversation]:
    """The conversations of a shard.

    Raises:
        EvidenceError: the file is not what its page says.
    """
    path = folder / f"{page['name']}.safetensors"
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"'{path}' cannot be read ({error}); begin anew elsewhere") from error
    if hashlib.sha256(raw).hexdigest() != page["sha256"]:
        raise EvidenceError(
            f"'{path}' was changed after it was written: remove it with its .json file and "
            "synthesis.json beside their folder, and start again; it is then made anew"
        )
    content = load(raw)
    texts, token, row = [], 0, 0
    for length in content["lengths"].tolist():
        kinds = content["kinds"][token : token + length]
        rows = slice(row, row + len(scored_positions(kinds)))
        texts.append(
            Conversation(
                content["tokens"][token : token + length].long(),
                kinds,
                content["top_ids"][rows],
                content["top_probs"][rows],
                content["tail"][rows],
            )
        )
        token, row = token + length, rows.stop
    return texts


def write_page(path: Path, content: object) -> None:
    """Write indented JSON, whole or not at all."""
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with written_whole(path) as file:
        file.write(f"{text}\n".encode())


def read_page(path: Path) -> dict[str, Any] | None:
    """What `write_page` wrote; None where nothing is.

    Raises:
        EvidenceError: it is no JSON object.
    """
    if not path.is_file():
        return None
    try:
        page = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EvidenceError(f"'{path}' is damaged ({error}); remove it and start again") from error
    if not isinstance(page, dict):
        raise EvidenceError(f"'{path}' holds no JSON object; remove it and start again")
    return page


def _joined(parts: list[Tensor], dtype: torch.dtype, columns: int | None = None) -> Tensor:
    if not parts:
        return torch.empty((0,) if columns is None else (0, columns), dtype=dtype)
    return torch.cat(parts).to(dtype)
