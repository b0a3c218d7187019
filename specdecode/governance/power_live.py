"""Stages that look again and again, simulated as `decide` judges them.

Each run makes requests until the first look at which `decide` would answer, or until the stage has
read all it may. A canary goes on to its next step with a GO of the one before. The bounds that
`decide` shows beside its outcomes are not computed, only when they cross what is asked; a test
holds the answers and the moments to those of `decide`.

Some things are done otherwise. Metrics that only report are left out. The audit's word is drawn by
the chance that the effects state (`biased`), and heard at the end of the first step. Windows have
no say, since a plan does not suppose how fast requests come. A watch has no end: it is simulated
for `WATCHED` units, and is a GO if no alarm came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from specdecode.errors import ConfigError, EvidenceError
from specdecode.governance.live.alarms import (
    SAMPLE_RATIO,
    alarm_name,
    alarms,
    metrics_of,
    place,
    role_of,
    step_names,
    strata_of,
)
from specdecode.governance.plan_schema import Plan
from specdecode.governance.power_looks import Look, first_bad, first_good, look_at
from specdecode.governance.power_needs import check_needs
from specdecode.governance.power_outcome import Ended
from specdecode.governance.power_streams import Requests, Stream
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.verdict import Status
from specdecode.statistics.sample_ratio import sample_ratio_test

WATCHED = 10_000
"""Units for which a watch without end is simulated."""


def live_runs(view: Plan) -> tuple[Callable[[np.random.Generator], Ended], int]:
    """Runs of a live stage, one a call, and how many units each may use.

    Args:
        view: the plan at the stage.

    Raises:
        ConfigError: the plan does not suppose what the stage's metrics need.
    """
    simulated = _Simulated(view)
    return simulated.run, simulated.most


@dataclass
class _Seen:
    """Requests of the baseline so far, in all steps."""

    total: int = 0
    failed: int = 0


class _Simulated:
    def __init__(self, view: Plan) -> None:
        stage = view.sequential_stage
        if stage is None:
            raise ConfigError(f"plan {view.name}: {view.stage} looks once")
        self._view, self._stage = view, stage
        self._arm, self._base = view.candidates[0], view.baseline
        self._metrics = [m for m in metrics_of(view, stage) if role_of(m, stage) != "secondary"]
        if not self._metrics:
            raise ConfigError(
                f"plan {view.name}: no metric of {view.stage} has a say, so there is nothing to "
                "simulate"
            )
        arms = [self._arm] if stage.name == "watch" else [self._arm, self._base]
        check_needs(view, self._metrics, arms)
        self._stream = Stream(view, self._metrics)
        self._ledger = alarms(view, stage)
        self._most = stage.n_max or WATCHED
        self.most = self._most * len(step_names(stage))

    def run(self, rng: np.random.Generator) -> Ended:
        """One run, through all steps of a canary."""
        accused = self._accused(rng)
        seen, used = _Seen(), 0
        for step in step_names(self._stage):
            requests = self._stream.requests(self._stage, step, self._most, rng)
            end = self._valid(step, requests, self._answer(step, requests), seen)
            used += end.n
            if accused and end.status is not Status.INVALID:
                return Ended(Status.NO_GO, used, tuple(accused))
            if end.status is not Status.GO:
                break
        return replace(end, n=used)

    def _answer(self, step: str | None, requests: Requests) -> Ended:
        """The first answer of one step, as far as its metrics go."""
        looks = []
        for metric in self._metrics:
            try:
                looks.append(look_at(self._stage, metric, requests))
            except EvidenceError:
                held = (f"{metric.name} (outside its bounds)",)
                return Ended(Status.INVALID, self._most, held)
        passed = {look.metric.name: self._passes(look) for look in looks}
        times = [at for at in passed.values() if at is not None]
        go = max(times) if len(times) == len(passed) else None
        if go is not None and self._stage.name == "watch":
            go = self._most
        failed = {  # an alarm after the answer would come too late
            name: at
            for look in looks
            for name, at in self._alarms(look, step, requests, go or self._most)
        }
        if failed:
            first = min(failed.values())
            return Ended(Status.NO_GO, first, tuple(k for k, at in failed.items() if at == first))
        if go is None:
            where = place(step, None)
            late = tuple(alarm_name(name, where) for name, at in passed.items() if at is None)
            return Ended(Status.INCONCLUSIVE, self._most, late)
        return Ended(Status.GO, go, silent=self._stage.name == "watch")

    def _passes(self, look: Look) -> int | None:
        """Units after which a metric no longer holds the decision."""
        ready = look.units_for(self._stage.n_min)
        if ready is None or role_of(look.metric, self._stage) == "guardrail":
            return ready
        good = first_good(look, self._stage.alpha)
        return None if good is None else max(good, ready)

    def _alarms(
        self, look: Look, step: str | None, requests: Requests, within: int
    ) -> Iterator[tuple[str, int]]:
        """Harm shown by a metric, everywhere and in strata, and after how many units."""
        name = look.metric.name
        guards = role_of(look.metric, self._stage) == "guardrail"
        for stratum in (None, *(strata_of(self._view) if guards else ())):
            where = place(step, stratum)
            part = look if stratum is None else look.of(requests, *stratum)
            named = alarm_name(name, where)
            alpha = self._ledger.level(named) if guards else self._stage.alpha
            at = first_bad(part, alpha, within)
            if at is not None:
                yield named, at

    def _valid(self, step: str | None, requests: Requests, end: Ended, seen: _Seen) -> Ended:
        """The end of a step, unless its requests are no evidence by then."""
        if self._stage.name == "watch":
            return end
        known = int(requests.known[end.n - 1])
        seen.total += known
        seen.failed += int(requests.baseline.failed[:known].sum())
        allowed = self._view.missing_data.max_missing_share
        if seen.total >= self._stage.n_min and seen.failed > allowed * seen.total:
            return Ended(Status.INVALID, end.n, ("integrity/baseline_works",))
        if step is not None and self._stage.steps is not None:
            level = self._ledger.level(SAMPLE_RATIO) / (2 * len(self._stage.steps))
            shares, arms = [1 - float(step), float(step)], requests.assigned[: end.n + known]
            at = sample_ratio_test(arms, shares, alpha=level).rejected_at
            if at is not None:
                return Ended(
                    Status.INVALID, max(1, int(arms[:at].sum())), ("integrity/sample_ratio",)
                )
        return end

    def _accused(self, rng: np.random.Generator) -> list[str]:
        """Losslessness rules of the stage whose arm the audit calls biased in this run."""
        called = rng.random() < self._view.power.effects.arms[self._arm].biased
        return [
            rule.name
            for rule in self._view.rules
            if isinstance(rule, Losslessness)
            and rule.role != "secondary"
            and rule.arm == self._arm
            and called
        ]
