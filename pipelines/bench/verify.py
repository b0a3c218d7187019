"""The verification rules alone: time and bytes, and their share of a target pass.

The laws are real ones: blocks recorded while the default target verified a draft that agrees with
it moderately, which is where block verification has most to decide. A larger vocabulary is the same
laws laid side by side, so that the overlap of draft and target stays what it was.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from pipelines.bench.passes import pass_seconds
from pipelines.bench.turns import BenchPrompt, Row, as_ratio
from specdecode import Engine, SamplingParams
from specdecode.decoding.clock import now
from specdecode.decoding.loop import Batch
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel
from specdecode.statistics.bootstrap import paired_ratio_interval
from specdecode.verification import RULES, Coins, Verification

BATCHES = (1, 8, 64)
GAMMAS = (4, 8)
VOCABULARIES = (49_152, 151_936)
NAMES = ("token", "block")
_SEED = 7


@dataclass(frozen=True, eq=False)
class Laws:
    """Inputs of a rule: tokens `[B, G]`, draft laws `[B, G, V]`, target laws `[B, G + 1, V]`."""

    tokens: Tensor
    draft: Tensor
    target: Tensor


class _Recorder(Engine):
    """An engine that keeps what its rule was asked."""

    kept: list[Laws]

    def _batch(self, *args: Any, **options: Any) -> Batch:
        batch = super()._batch(*args, **options)
        rule = batch.rule
        self.kept = []

        def recording(
            draft_tokens: Tensor,
            draft_probs: Tensor,
            target_probs: Tensor,
            coins: Coins,
            lengths: Tensor | None = None,
            *,
            validate: bool = True,
        ) -> Verification:
            if draft_tokens.shape[1] == max(GAMMAS):
                laws = (draft_tokens, draft_probs, target_probs)
                self.kept.append(Laws(*(part.clone() for part in laws)))
            return rule(draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate)

        batch.rule = recording
        return batch


def record(
    target: LoadedModel, draft: str, prompts: Sequence[BenchPrompt], blocks: int
) -> list[Laws]:
    """Blocks of the largest γ, temperature 1, one row each."""
    made = _Recorder.load(target, draft, num_speculative_tokens=max(GAMMAS))
    found: list[Laws] = []
    for index, prompt in enumerate(prompts):
        made.generate([prompt.ids], SamplingParams(max_tokens=48, seed=index, ignore_eos=True))
        found += made.kept
        if len(found) >= blocks:
            return found[:blocks]
    return found


def verify(
    target: LoadedModel, draft: str, prompts: Sequence[BenchPrompt], *, blocks: int, repeats: int
) -> tuple[dict[str, Any], list[Row]]:
    """Time token and block verification in turns.

    Args:
        target: whose laws and whose pass are used.
        draft: spec of the draft model.
        prompts: to record blocks from.
        blocks: how many to record.
        repeats: timed calls per case and rule.

    Returns:
        the `verify` part of the report, and its rows.

    Raises:
        ConfigError: no full block was recorded, or too few calls were timed.
    """
    recorded = record(target, draft, prompts, blocks)
    if not recorded:
        raise ConfigError("no full draft block was recorded: give the bench longer prompts")
    rows = [
        row
        for vocabulary in VOCABULARIES
        for batch in BATCHES
        for gamma in GAMMAS
        for row in _time(_laid_out(recorded, vocabulary, batch, gamma), repeats)
    ]
    step_ms = 1e3 * pass_seconds(target.network, batch=1, width=1, depth=100, repeats=40)
    small = [r for r in rows if r["vocabulary"] == target.vocab_size and r["batch"] == 1]
    cases = [
        _case([r for r in rows if (r["vocabulary"], r["batch"], r["gamma"]) == key])
        for key in dict.fromkeys((r["vocabulary"], r["batch"], r["gamma"]) for r in rows)
    ]
    share = {
        name: round(
            max(
                statistics.median(r[f"{name}_ms"] for r in small if r["gamma"] == gamma) / step_ms
                for gamma in GAMMAS
            ),
            4,
        )
        for name in NAMES
    }
    report = {
        "block_vs_token": _ratio(rows, by_case=True),
        "share_of_forward": share,
        "target_pass_ms": round(step_ms, 3),
        "cases": cases,
        "draft": draft.rsplit("/", 1)[-1],
    }
    return report, rows


def _laid_out(recorded: list[Laws], vocabulary: int, batch: int, gamma: int) -> list[Laws]:
    """The recorded blocks as batches of another shape; each batch a different mix of blocks."""
    batches = []
    for first in range(0, len(recorded), max(1, len(recorded) // 8)):
        chosen = [recorded[(first + i) % len(recorded)] for i in range(batch)]
        tokens = torch.cat([laws.tokens[:, :gamma] for laws in chosen])
        draft = torch.cat([laws.draft[:, :gamma] for laws in chosen])
        target = torch.cat([laws.target[:, : gamma + 1] for laws in chosen])
        batches.append(Laws(tokens, _widened(draft, vocabulary), _widened(target, vocabulary)))
        if batch * vocabulary > 10**6:
            break  # one large batch fills the caches by itself
    return batches


def _widened(laws: Tensor, vocabulary: int) -> Tensor:
    copies = vocabulary // laws.shape[-1]
    if copies < 2:
        return laws
    wide = laws.new_zeros(*laws.shape[:-1], vocabulary)
    wide[..., : copies * laws.shape[-1]] = laws.repeat(1, 1, copies) / copies
    return wide


def _time(batches: list[Laws], repeats: int) -> list[Row]:
    generator = torch.Generator().manual_seed(_SEED)
    B, G = batches[0].tokens.shape
    V, device = batches[0].target.shape[-1], batches[0].target.device
    if B * V > 10**6:
        repeats = max(4, repeats // 5)
    rows: list[Row] = []
    for repeat in range(repeats + 1):
        laws = batches[repeat % len(batches)]
        coins = Coins(
            torch.rand(B, G, generator=generator, dtype=torch.float64).to(device),
            torch.rand(B, generator=generator, dtype=torch.float64).to(device),
        )
        row: Row = {"section": "verify", "vocabulary": V, "batch": B, "gamma": G}
        for name in NAMES if repeat % 2 else NAMES[::-1]:
            started = now(device)
            RULES[name](laws.tokens, laws.draft, laws.target, coins, validate=False)
            row[f"{name}_ms"] = 1e3 * (now(device) - started)
        if repeat:  # the first call pages memory in
            rows.append(row)
    for name in NAMES:
        rows[0][f"{name}_allocated_bytes"] = _allocated(name, batches[0], coins)
    rows[0]["input_bytes"] = sum(t.numel() * 4 for t in (batches[0].draft, batches[0].target))
    return rows


def _allocated(name: str, laws: Laws, coins: Coins) -> int:
    """Bytes one call asks for, freed ones included."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        RULES[name](laws.tokens, laws.draft, laws.target, coins, validate=False)
    events = profiler.profiler.kineto_results.events()
    return sum(e.nbytes() for e in events if e.name() == "[memory]" and e.nbytes() > 0)


def _case(rows: list[Row]) -> Row:
    first = rows[0]
    medians = {f"{n}_ms": round(statistics.median(r[f"{n}_ms"] for r in rows), 4) for n in NAMES}
    sizes = {k: v for k, v in first.items() if k.endswith("_bytes")}
    shape = {k: first[k] for k in ("vocabulary", "batch", "gamma")}
    return {**shape, **medians, **sizes, "block_vs_token": _ratio(rows)}


def _ratio(rows: list[Row], *, by_case: bool = False) -> Row:
    """Time of block over time of token; with `by_case` every case weighs the same."""
    weights = dict.fromkeys(((r["vocabulary"], r["batch"], r["gamma"]) for r in rows), 1.0)
    if by_case:
        for key in weights:
            times = [
                r["token_ms"] for r in rows if (r["vocabulary"], r["batch"], r["gamma"]) == key
            ]
            weights[key] = 1 / sum(times)
    scale = [weights[r["vocabulary"], r["batch"], r["gamma"]] for r in rows]
    interval = paired_ratio_interval(
        [r["block_ms"] * s for r, s in zip(rows, scale, strict=True)],
        [r["token_ms"] * s for r, s in zip(rows, scale, strict=True)],
        seed=_SEED,
    )
    if interval is None:
        raise ConfigError("too few timed calls for an interval: raise repeats")
    return as_ratio(interval)
