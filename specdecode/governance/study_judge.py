"""A simulated run judged by a plan's rules as `decide` would judge it, column by column.

`decide` reads rows from anyone and trusts none: most of its time goes into reading, hashing and
checking them. Rows that were made up a moment ago need none of that. Here the rules see arrays; how
an interval meets a threshold is the rule's own `judge`, and a test compares every entry with that
of `decide` on the same rows. Rules that only report are left out: they change no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from specdecode.errors import ConfigError
from specdecode.governance.plan_schema import Plan
from specdecode.governance.rules.acceptance_length import AcceptanceLength
from specdecode.governance.rules.base import Rule
from specdecode.governance.rules.efficiency_gain import EfficiencyGain
from specdecode.governance.rules.error_rate import ErrorRate
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.rules.quality import QualityNonInferiority
from specdecode.governance.rules.speed_ratio import SpeedRatio
from specdecode.governance.rules.strata import Strata
from specdecode.governance.rules.tail_latency import TailLatency
from specdecode.governance.rules.token_amplification import TokenAmplification
from specdecode.governance.study_draws import Draws, quantile_interval
from specdecode.governance.verdict import Outcome, RuleResult, Status
from specdecode.measurement.records import STRATA
from specdecode.statistics import betting_interval, jackknife
from specdecode.statistics.interval import Interval

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Parts = tuple[FloatArray, FloatArray]
Column = Callable[[str], FloatArray]

SPEED, LENGTH, ROWS = (
    "output_tokens_per_s",
    "mean_acceptance_length",
    "target_tokens_per_output_token",
)

# Numerator and denominator of the metrics that rules read, as in `measurement.metrics`.
_FORMULAS: dict[str, Callable[[Column], Parts]] = {
    SPEED: lambda get: (get("output_tokens"), get("e2e_s")),
    LENGTH: lambda get: (get("steps") + get("accepted"), get("steps")),
    ROWS: lambda get: (get("target_tokens"), get("output_tokens")),
    "ttft_s": lambda get: (get("ttft_s"), np.ones_like(get("ttft_s"))),
    "e2e_s": lambda get: (get("e2e_s"), np.ones_like(get("e2e_s"))),
    "tpot_s": lambda get: (get("e2e_s") - get("ttft_s"), get("output_tokens") - 1),
}
_NUMBERS = ("output_tokens", "ttft_s", "e2e_s", "steps", "accepted", "target_tokens", "quality")


@dataclass(frozen=True)
class Cells:
    """One simulated run.

    Args:
        arms: names, in the order of the second axis.
        settings: names, in the order of the first axis.
        columns: by name, [settings, arms, prompts].
        labels: of the prompts, by stratum: [prompts].
        failed: [settings, arms, prompts].
    """

    arms: list[str]
    settings: list[str]
    columns: Mapping[str, FloatArray]
    labels: Mapping[str, npt.NDArray[Any]]
    failed: Mask

    @classmethod
    def of(cls, plan: Plan, columns: Mapping[str, npt.NDArray[Any]]) -> Cells:
        """From what `simulated_columns` makes for the plan."""
        arms, settings = [arm.name for arm in plan.arms], list(plan.sampling)
        shape = (len(settings), len(arms), -1)
        return cls(
            arms=arms,
            settings=settings,
            columns={k: columns[k].astype(np.float64).reshape(shape) for k in _NUMBERS},
            labels={by: columns[by].reshape(shape)[0, 0] for by in STRATA if by in columns},
            failed=np.array([error is not None for error in columns["error"]]).reshape(shape),
        )

    def column(self, arm: str, name: str) -> FloatArray:
        """[settings, prompts]."""
        return self.columns[name][:, self.arms.index(arm)]

    def parts(self, metric: str, arm: str) -> Parts:
        """Numerator and denominator of a metric, [settings, prompts] each."""
        return _FORMULAS[metric](partial(self.column, arm))

    def usable(self, sampling: str | None, *arms: str) -> Mask:
        """Where the setting is meant and no arm failed, [settings, prompts]."""
        wanted = np.array([sampling in (None, name) for name in self.settings])[:, None]
        return wanted & ~self.failed[:, [self.arms.index(arm) for arm in arms]].any(axis=1)

    def within(self, by: str, value: str) -> Mask:
        """Where a stratum is, [settings, prompts]."""
        if by == "sampling":
            return np.repeat(np.array(self.settings)[:, None] == value, self.failed.shape[2], 1)
        return np.repeat((self.labels[by] == value)[None], len(self.settings), 0)


def judge_run(plan: Plan, cells: Cells, accused: Collection[str], draws: Draws) -> list[RuleResult]:
    """The entries of all rules with a say, in the plan's order.

    Args:
        plan: a stage's view.
        cells: one complete run of that stage.
        accused: arms that the audit calls biased.
        draws: made with the plan's `bootstrap_seed`.

    Raises:
        ConfigError: a kind of rule that is not known here.
    """
    deciding = [rule for rule in plan.rules if rule.role != "secondary"]
    run = _Run(cells, plan.baseline, accused, draws)
    return [entry for rule in deciding for entry in run.judge(rule)]


def status_of(entries: Iterable[RuleResult]) -> Status:
    """NO_GO if a rule failed; else INCONCLUSIVE if one that counts did not pass; else GO."""
    found = {entry.outcome for entry in entries if entry.counts}
    if Outcome.FAIL in found:
        return Status.NO_GO
    return Status.GO if found == {Outcome.PASS} else Status.INCONCLUSIVE


@dataclass(frozen=True)
class _Run:
    cells: Cells
    baseline: str
    accused: Collection[str]
    draws: Draws

    def judge(self, rule: Rule) -> list[RuleResult]:  # noqa: PLR0911 - one line a kind of rule
        match rule:
            case Losslessness():
                found = rule.arm in self.accused
                outcome = Outcome.FAIL if found else Outcome.PASS
                return [rule.result(outcome, "as supposed", threshold=rule.alpha)]
            case ErrorRate():
                return [self._errors(rule)]
            case SpeedRatio():
                return [rule.judge(self._ratio(rule, SPEED, self.baseline), rule.threshold)]
            case EfficiencyGain():
                return [rule.judge(self._ratio(rule, LENGTH, rule.versus), rule.threshold)]
            case QualityNonInferiority():
                return [rule.judge(self._difference(rule), -rule.margin)]
            case AcceptanceLength():
                return [rule.judge(self._mean(rule, LENGTH), rule.threshold)]
            case TokenAmplification():
                return [rule.judge(self._mean(rule, ROWS), rule.threshold)]
            case TailLatency():
                return [rule.judge(self._tail(rule), rule.threshold)]
            case Strata():
                return self._strata(rule)
        raise ConfigError(f"{rule.name}: rules of kind {rule.kind} are not simulated")

    def _errors(self, rule: ErrorRate) -> RuleResult:
        failed = self.cells.failed[:, self.cells.arms.index(rule.arm)]
        n, rate = failed.size, float(failed.mean())
        outcome = Outcome.PASS if n >= rule.n_min else Outcome.INSUFFICIENT
        outcome = Outcome.FAIL if rate > rule.max_rate else outcome
        return rule.result(outcome, f"{rate:.2%} of {n} failed", threshold=rule.max_rate, n=n)

    def _mean(self, rule: AcceptanceLength | TokenAmplification, metric: str) -> Interval | None:
        keep = self.cells.usable(rule.sampling, rule.arm)
        sums = _sums(keep, *self.cells.parts(metric, rule.arm))
        return jackknife.of_sums(sums, rule.level)

    def _ratio(
        self,
        rule: SpeedRatio | EfficiencyGain | Strata,
        metric: str,
        below: str,
        *,
        level: float | None = None,
        inside: Mask | bool = True,
    ) -> Interval | None:
        keep = self.cells.usable(rule.sampling, rule.arm, below) & inside
        parts = (*self.cells.parts(metric, rule.arm), *self.cells.parts(metric, below))
        return jackknife.of_sums(_sums(keep, *parts), level or rule.level)

    def _difference(
        self,
        rule: QualityNonInferiority | Strata,
        *,
        level: float | None = None,
        inside: Mask | bool = True,
    ) -> Interval | None:
        arm, base = (self.cells.column(name, "quality") for name in (rule.arm, self.baseline))
        keep = self.cells.usable(rule.sampling, rule.arm, self.baseline) & inside
        keep &= ~np.isnan(arm - base)
        return betting_interval.difference_interval(
            arm.T[keep.T],  # prompt by prompt
            base.T[keep.T],
            clusters=np.nonzero(keep.T)[0],
            level=level or rule.level,
            seed=self.draws.seed,
        )

    def _tail(self, rule: TailLatency) -> Interval | None:
        keep = self.cells.usable(rule.sampling, rule.arm, self.baseline)
        parts = [self.cells.parts(rule.metric, arm) for arm in (rule.arm, self.baseline)]
        values = np.stack([(top / bottom)[keep] for top, bottom in parts])
        _, clusters = np.unique(np.nonzero(keep)[1], return_inverse=True)
        return quantile_interval(values, clusters, rule.quantile, self.draws, rule.level)

    def _strata(self, rule: Strata) -> list[RuleResult]:
        named = [(by, value) for by, values in rule.strata.items() for value in values]
        level = 1 - (1 - rule.level) / len(named)
        entries = []
        for by, value in named:
            inside = self.cells.within(by, value)
            interval = (
                self._ratio(rule, SPEED, self.baseline, level=level, inside=inside)
                if rule.measure == "speed_ratio"
                else self._difference(rule, level=level, inside=inside)
            )
            counts = rule.insufficient == "inconclusive"
            entries.append(
                rule.judge(interval, rule.threshold, stratum=f"{by}={value}", counts=counts)
            )
        return entries


def _sums(keep: Mask, *values: FloatArray) -> FloatArray:
    """Sums over settings of each prompt that has anything to keep, [values, K]."""
    present = keep.any(axis=0)
    return np.stack([np.where(keep, value, 0.0).sum(axis=0)[present] for value in values])
