"""Rows by the million for `pipelines.bench.decide`: made up, consistent, and like measured ones.

Three arms and two settings for each prompt, in the order a run measures them. Replies are as short
as a benchmark's; ids and text of prompt and reply are there or withheld, as services do either.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from specdecode.measurement.arrays import ArrowArray, taken, texts
from specdecode.measurement.records import RECORD_SCHEMA

ARMS = ("plain", "token", "block")
SETTINGS = ("greedy", "sampled")
CATEGORIES = (
    "arithmetic", "chat", "classification", "closed_qa", "code_completion", "code_repair",
    "extract_json", "list_making", "long_context", "open_qa", "repetition", "rewriting",
    "role_play", "summarise", "tool_call", "translate",
)  # fmt: skip
LANGUAGES = ("en", "de", "es", "fr", "ja", "pt", "zh")
DIFFICULTIES = ("normal", "hard", "adversarial")
GAMMA, LONGEST = 5, 32
PER_GROUP = 20_000  # prompts in a row group
_EACH = len(ARMS) * len(SETTINGS)
_START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6)


def write_rows(path: Path, rows: int, *, manifest: str, content: bool, seed: int = 1) -> int:
    """Write about so many rows (whole prompts); returns how many.

    Args:
        path: a parquet file, compressed with zstd.
        rows: how many are wanted.
        manifest: `manifest_sha256` of each.
        content: with the ids and text of prompts and replies, or with those withheld.
        seed: of everything random.
    """
    prompts = -(-rows // _EACH)
    rng = np.random.default_rng(seed)
    with pq.ParquetWriter(path, RECORD_SCHEMA, compression="zstd") as writer:
        for first in range(0, prompts, PER_GROUP):
            some = np.arange(first, min(first + PER_GROUP, prompts))
            writer.write_table(_group(rng, some, manifest=manifest, content=content))
    return prompts * _EACH


def _group(
    rng: np.random.Generator, prompts: npt.NDArray[np.int64], *, manifest: str, content: bool
) -> pa.Table:
    n = len(prompts) * _EACH
    prompt = np.repeat(prompts, _EACH)
    setting = np.tile(np.repeat(np.arange(len(SETTINGS)), len(ARMS)), len(prompts))
    arm = rng.permuted(np.tile(np.arange(len(ARMS)), (n // len(ARMS), 1)), axis=1).ravel()
    drafts = arm > 0
    asked = np.repeat(rng.integers(20, 120, len(prompts)), _EACH)
    tokens = np.minimum(rng.geometric(1 / 24, n) + 1, LONGEST)
    steps = np.where(drafts, np.maximum(1, (tokens - 1) // 3), tokens)
    accepted = np.where(drafts, np.minimum(2 * steps + rng.integers(0, 3, n), GAMMA * steps), 0)
    full = accepted // GAMMA
    rest = accepted - GAMMA * full
    histogram = np.zeros((n, GAMMA + 1), np.int64)
    histogram[:, GAMMA] = full
    histogram[np.arange(n), rest] += rest > 0
    histogram[:, 0] = steps - histogram[:, 1:].sum(axis=1)
    second = 0.012 * rng.lognormal(0, 0.25, n) / np.where(drafts, 1.35, 1.0)
    ttft = 0.05 * rng.lognormal(0, 0.3, n)
    e2e = ttft + second * (tokens - 1)
    scored = prompt % 8 > 0
    quality = (rng.random(n) < 0.7).astype(np.float64)
    words = {
        "prompt_id": _texts([f"{CATEGORIES[p % 16]}-{LANGUAGES[p % 7]}-{p:07d}" for p in
                             prompts.tolist()], np.repeat(np.arange(len(prompts)), _EACH)),
        "arm": _texts(ARMS, arm),
        "category": _texts(CATEGORIES, prompt % 16),
        "language": _texts(LANGUAGES, prompt % 7),
        "difficulty": _texts(DIFFICULTIES, prompt % 3),
        "sampling": _texts([_settings(name) for name in SETTINGS], setting),
        "finish_reason": _texts(("stop", "length"), (tokens == LONGEST).astype(np.int64)),
    }  # fmt: skip
    zero = np.zeros(n, np.int64)
    columns: dict[str, ArrowArray] = words | {
        "request_id": pc.binary_join_element_wise(
            words["prompt_id"], _texts(SETTINGS, setting), words["arm"], "/"
        ),
        "stage": _texts(("offline",), zero),
        "profile": _texts(("full",), zero),
        "manifest_sha256": _texts((manifest,), zero),
        "prompt_tokens": asked,
        "output_tokens": tokens,
        "seed": rng.integers(0, 2**62, n),
        "ttft_s": ttft,
        "tpot_s": pa.array((e2e - ttft) / np.maximum(tokens - 1, 1), mask=tokens < 2),
        "e2e_s": e2e,
        "draft_s": np.where(drafts, 0.4 * e2e, 0.0),
        "verify_s": np.where(drafts, 0.5 * e2e, 0.9 * e2e),
        "other_s": 0.1 * e2e,
        "steps": steps,
        "drafted": np.where(drafts, GAMMA * steps, 0),
        "accepted": accepted,
        "acceptance_histogram": _lists(histogram, np.where(drafts, GAMMA + 1, 1)),
        "target_tokens": np.where(drafts, (GAMMA + 1) * steps, tokens - 1),
        "peak_rss_bytes": 2**30 + rng.integers(0, 2**20, n),
        "quality": pa.array(quality, mask=~scored),
        "order_index": prompts[0] * _EACH + np.arange(n),
        "started_at": pa.array(_START + np.cumsum(e2e * 1e6).astype(np.int64)).cast(
            pa.timestamp("us", tz="UTC")
        ),
    }
    if content:
        ids = np.repeat(rng.integers(0, 49_000, (len(prompts), 120)), _EACH, axis=0)
        columns["prompt_token_ids"] = _lists(ids.astype(np.int32), asked)
        reply = rng.integers(0, 49_000, (n, LONGEST)).astype(np.int32)
        columns["output_token_ids"] = _lists(reply, tokens)
        said = "the model answers in a few plain words that are about as long as a reply is " * 3
        texts_of = [said[: 4 * length] for length in range(LONGEST + 1)]
        columns["output_text"] = _texts(texts_of, tokens)
    arrays = [
        pa.array(columns[f.name]).cast(f.type) if f.name in columns else pa.nulls(n, f.type)
        for f in RECORD_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=RECORD_SCHEMA)


def _settings(name: str) -> str:
    """As `specdecode.workload.sampling` records them."""
    temperature = 0.0 if name == "greedy" else 1.0
    return json.dumps(
        {"frequency_penalty": 0.0, "ignore_eos": False, "logit_bias": None, "logprobs": 0,
         "max_tokens": LONGEST, "min_p": 0.0, "n": 1, "name": name, "presence_penalty": 0.0,
         "repetition_penalty": 1.0, "stop": [], "temperature": temperature, "top_k": 0,
         "top_p": 1.0}
    )  # fmt: skip


def _texts(values: list[str] | tuple[str, ...], index: npt.NDArray[np.int64]) -> ArrowArray:
    return taken(texts(values), index)


def _lists(values: npt.NDArray[np.generic], sizes: npt.NDArray[np.int64]) -> ArrowArray:
    """The first `sizes[i]` of each row."""
    inside = np.arange(values.shape[1]) < sizes[:, None]
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values[inside]))
