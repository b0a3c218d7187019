"""Replies as the audit reads them, many runs at a time."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specdecode import Engine, SamplingParams

Row = dict[str, Any]
_LARGEST_BATCH = 256
_PROMPT = 4


def drawn_rows(
    engine: Engine,
    sampling: Mapping[str, Any],
    asked: Sequence[tuple[int, int]],
    *,
    name: str,
    seed: int,
    reply: int,
) -> list[Row]:
    """One reply for each (run, row), of a random prompt and coins of its own.

    Prompt and coins depend on name, seed, run and row alone: how replies are batched, or which runs
    are still going, changes nothing. So runs that share a batch stay independent.

    Args:
        engine: decodes.
        sampling: parameters of all, besides length and seed.
        asked: (run, row) pairs.
        name: what is studied.
        seed: of the study.
        reply: tokens of each.
    """
    prompts, params = [], []
    for run, row in asked:
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), run, row])
        prompts.append(rng.integers(1, engine.target.vocab_size, _PROMPT).tolist())
        own = int(rng.integers(2**62))
        params.append(
            SamplingParams(**{**sampling, "max_tokens": reply, "seed": own, "ignore_eos": True})
        )
    rows: list[Row] = []
    for start in range(0, len(prompts), _LARGEST_BATCH):
        part = slice(start, start + _LARGEST_BATCH)
        for result, used in zip(
            engine.generate(prompts[part], params[part]), params[part], strict=True
        ):
            rows.append(
                {
                    "prompt_token_ids": list(result.prompt_token_ids),
                    "output_token_ids": list(result.token_ids),
                    "finish_reason": result.finish_reason,
                    "sampling": used.model_dump(mode="json"),
                }
            )
    return rows


def first_evidence(reports: Mapping[str, Any]) -> dict[str, int | None]:
    """Tokens read when the evidence first sufficed, by arm; None where it never did."""
    return {
        arm: None if report.first_evidence is None else report.first_evidence.tokens_read
        for arm, report in reports.items()
    }
