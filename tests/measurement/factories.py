"""Rows for tests: plausible, consistent, and changed one field at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import Record

MANIFEST = "a" * 64
OTHER_MANIFEST = "b" * 64
START = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLING = {
    "greedy": {"name": "greedy", "temperature": 0.0, "max_tokens": 32},
    "sampled": {"name": "sampled", "temperature": 1.0, "max_tokens": 32},
}
CATEGORIES = (
    "arithmetic",
    "chat",
    "classification",
    "closed_qa",
    "code_completion",
    "code_repair",
    "extract_json",
    "list_making",
    "long_context",
    "open_qa",
    "repetition",
    "rewriting",
    "role_play",
    "summarise",
    "tool_call",
    "translate",
)
LANGUAGES = ("en", "de", "en", "ja", "fr", "en", "es", "zh", "pt")
DIFFICULTIES = ("normal", "normal", "hard", "adversarial")


def record(
    prompt: str = "p0", arm: str = "plain", sampling: str = "greedy", **changes: Any
) -> Record:
    """One consistent row; `changes` replace fields as they are."""
    fields: dict[str, Any] = {
        "request_id": f"{prompt}/{sampling}/{arm}",
        "prompt_id": prompt,
        "arm": arm,
        "stage": "offline",
        "profile": "full",
        "category": "chat",
        "difficulty": "normal",
        "language": "en",
        "prompt_tokens": 3,
        "prompt_token_ids": [1, 2, 3],
        "output_tokens": 5,
        "output_token_ids": [5, 6, 7, 8, 9],
        "output_text": "five tokens, a line\nbreak and ünïcode \u2028",
        "finish_reason": "stop",
        "sampling": SAMPLING[sampling],
        "seed": 7,
        "ttft_s": 0.1,
        "tpot_s": 0.1,
        "e2e_s": 0.5,
        "steps": 5,
        "drafted": 0,
        "accepted": 0,
        "acceptance_histogram": [5],
        "target_tokens": 5,
        "peak_rss_bytes": 1 << 30,
        "quality": 1.0,
        "order_index": 0,
        "started_at": START,
        "manifest_sha256": MANIFEST,
    }
    return Record.model_validate(fields | changes)


def run(
    prompts: int = 130,
    *,
    speed: float = 1.5,
    quality: float = 0.7,
    candidate_quality: float | None = None,
    seed: int = 0,
    profile: str = "full",
    change: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None,
) -> list[Record]:
    """A full run of three arms and two settings, noisy and seeded.

    Args:
        prompts: how many prompts.
        speed: true speed ratio of the speculative arms.
        quality: mean score of all arms, of block when `candidate_quality` is None.
        seed: of the noise.
        profile: of every row.
        change: called with each row's fields; returns them changed, or None to drop the row.
    """
    rng = np.random.default_rng(seed)
    records = []
    for index in range(prompts):
        for name in SAMPLING:
            for arm in ("plain", "token", "block"):
                fields = _row(rng, index, name=name, arm=arm, speed=speed, profile=profile)
                mean = quality
                if arm == "block" and candidate_quality is not None:
                    mean = candidate_quality
                fields["quality"] = float(rng.random() < mean) if index % 8 else None
                changed = change(fields) if change else fields
                if changed is not None:
                    records.append(Record.model_validate(changed))
    return records


def _row(
    rng: np.random.Generator, index: int, *, name: str, arm: str, speed: float, profile: str
) -> dict[str, Any]:
    prompt, tokens = f"p{index:04d}", int(rng.integers(10, 33))
    per_token = 0.04 * rng.uniform(0.9, 1.1)
    fields = record(prompt, arm, name).model_dump() | {
        "profile": profile,
        "category": CATEGORIES[index % len(CATEGORIES)],
        "language": LANGUAGES[index % len(LANGUAGES)],
        "difficulty": DIFFICULTIES[index % len(DIFFICULTIES)],
        "output_tokens": tokens,
        "output_token_ids": list(range(tokens)),
        "finish_reason": "length" if tokens == SAMPLING[name]["max_tokens"] else "stop",
        "started_at": START + timedelta(seconds=index),
    }
    if arm == "plain":
        counts = {"steps": tokens, "acceptance_histogram": [tokens], "target_tokens": tokens}
    else:
        per_token /= speed
        full, none = tokens // 4, tokens // 10
        counts = {
            "steps": full + none,
            "drafted": 4 * (full + none),
            "accepted": 4 * full,
            "acceptance_histogram": [none, 0, 0, 0, full],
            "target_tokens": 5 * (full + none),
        }
    e2e = per_token * tokens
    return fields | counts | {
        "ttft_s": per_token,
        "e2e_s": e2e,
        "tpot_s": (e2e - per_token) / (tokens - 1),
    }  # fmt: skip


def audit(records: Iterable[Record], **words: str) -> dict[str, Any]:
    """A document that clears every arm in these rows; `words` replace single arms' verdicts."""
    arms = dict.fromkeys(("plain", "token", "block"), "lossless") | words
    return {
        "schema": "specdecode.audit/1",
        "alpha": 0.01,
        "rows_sha256": rows_sha256(records),
        "arms": {arm: {"verdict": word, "tokens_read": 3000} for arm, word in arms.items()},
    }


def shuffled(records: Iterable[Record], seed: int) -> list[Record]:
    """The same rows in another order."""
    rows = list(records)
    return [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
