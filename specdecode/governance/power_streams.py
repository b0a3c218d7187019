"""Live requests as they would come if the supposed effects of live stages were true.

Made for the metrics that a stage judges, one column a number. Whether a request fails, keeps a
limit, and what its bounded values are is drawn by itself for each arm: arms of a pair have nothing
in common but the prompt, except for scores, which agree as often as `same_score` says. Real pairs
have more in common, so that a paired stage may well be shorter than is said here. A unit is one
request, whatever the stage counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from specdecode.governance.live.rows import LiveRows
from specdecode.governance.plan_live_effects import LiveEffect, Scatter
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.plan_schema import Plan
from specdecode.governance.plan_stages import Stage
from specdecode.governance.power_rows import SECONDS_PER_TOKEN, draft_tokens

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]

LENGTH, ROWS = "mean_acceptance_length", "target_tokens_per_output_token"
OFFLINE = frozenset({LENGTH, ROWS, "quality"})
"""Bounded metrics that the effects of offline stages say enough about."""
PARTS = {"draft_share": "draft_s", "verify_share": "verify_s", "other_share": "other_s"}
"""Bounded metrics that are shares of a reply's seconds, and their column."""
TIMES = ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s")
"""What an indicator may be about."""
INSIDE, OUTSIDE = (0.3, 0.9), (1.1, 1.7)
"""Seconds of requests within a limit and beyond it, as shares of it: no rounding crosses it."""


@dataclass(frozen=True)
class Requests:
    """The requests of a stage, or of one step of a canary, in order.

    Args:
        arm: those of the candidate, [n].
        baseline: of a shadow, the other half of each pair, [n]; of a canary, those of the other
            users, [m]; of a watch, none.
        known: how many of the baseline's came before the candidate's next one, [n].
        assigned: of a canary, which of all requests went to the candidate, [n + m].
        labels: strata of the candidate's, by name [n].
        other_labels: strata of the baseline's, by name [m].
    """

    arm: LiveRows
    baseline: LiveRows
    known: IntArray
    assigned: BoolArray
    labels: Columns
    other_labels: Columns


class Stream:
    """Makes the requests of one stage.

    Args:
        view: the plan at a live stage, with all effects that `power_needs` asks for.
        metrics: those that the stage judges.
    """

    def __init__(self, view: Plan, metrics: Sequence[PlanMetric]) -> None:
        self._plan, self._effects = view, view.power.effects
        self._arms = {arm.name: arm for arm in view.arms}
        self._limits = {m.name: m.limit for m in metrics if m.limit is not None}
        self._judged = {metric.name for metric in metrics}
        self._bounds = {m.name: (m.bounds.low, m.bounds.high or 0.0) for m in view.metrics}
        self._live: Mapping[str, LiveEffect] = self._effects.live or {}

    def requests(
        self, stage: Stage, step: str | None, n: int, rng: np.random.Generator
    ) -> Requests:
        """What a stage (or step) may read until it must have decided.

        Args:
            stage: a live one.
            step: share of traffic of a canary's step; None elsewhere.
            n: requests of the candidate.
            rng: source of all chance.
        """
        labels = self._labels(n, rng)
        prompts = self._prompts(n, rng)
        arm = _rows(*self._columns(self._plan.candidates[0], prompts, rng))
        if stage.name == "watch":
            none = np.empty(0, np.bool_)
            nobody = np.zeros(n, np.int64)
            return Requests(arm, _rows({}, none), nobody, none, labels, {})
        if step is None:
            base = _rows(*self._columns(self._plan.baseline, prompts, rng))
            return Requests(arm, base, 1 + np.arange(n), np.empty(0, np.bool_), labels, labels)
        at = np.cumsum(rng.geometric(float(step), n)) - 1  # of all requests, which are the arm's
        assigned = np.zeros(int(at[-1]) + 1, np.bool_)
        assigned[at] = True
        m = len(assigned) - n
        base = _rows(*self._columns(self._plan.baseline, self._prompts(m, rng), rng))
        known = np.append(at[1:] - np.arange(1, n), m)
        return Requests(arm, base, known, assigned, labels, self._labels(m, rng))

    def _prompts(self, n: int, rng: np.random.Generator) -> tuple[BoolArray, BoolArray]:
        """Which of n requests the baseline scores, and which have a checker; [n] each.

        The arms of a pair share both.
        """
        effects = self._effects
        return rng.random(n) < effects.quality, rng.random(n) < effects.checked

    def _labels(self, n: int, rng: np.random.Generator) -> Columns:
        """Values of the strata that the plan names, and of `sampling`, by name [n] each."""
        found = {}
        for by in ("sampling", *(by for by in self._plan.strata if by != "sampling")):
            named = self._plan.sampling if by == "sampling" else self._plan.whole.stratum_values(by)
            shares = self._effects.shares.get(by) or dict.fromkeys(named, 1 / len(named))
            ends = np.cumsum(list(shares.values()))
            which = np.searchsorted(ends, rng.random(n), side="right").clip(max=len(shares) - 1)
            found[by] = np.array(list(shares), dtype=object)[which]
        return found

    def _columns(
        self, arm: str, prompts: tuple[BoolArray, BoolArray], rng: np.random.Generator
    ) -> tuple[Columns, BoolArray]:
        """The numbers of an arm's requests, as in records, and which of them failed.

        Args:
            arm: its name.
            prompts: of `_prompts`, [n].
            rng: source of all chance.

        Returns:
            By name, [n] each; a failed request has numbers too, which no metric may read.
        """
        effect, n = self._live[arm], len(prompts[0])
        failed = rng.random(n) < effect.error_rate
        times = self._times(effect, n, rng)
        parts = {
            column: self._values(metric, effect.values[metric], n, rng) * times["e2e_s"]
            if metric in effect.values
            else np.zeros(n)
            for metric, column in PARTS.items()
            if metric in self._judged
        }
        counts = self._counts(arm, effect, times["output_tokens"], rng)
        return times | parts | counts | {"quality": self._scores(arm, effect, prompts, rng)}, failed

    def _times(self, effect: LiveEffect, n: int, rng: np.random.Generator) -> Columns:
        """Seconds and tokens of replies that keep each limit as often as supposed."""
        mean = self._effects.output_tokens
        tokens = rng.integers(max(2, mean // 2), mean + mean // 2, n, endpoint=True)
        kept, at = {}, {}
        for name in (name for name in TIMES if name in self._limits):
            kept[name] = rng.random(n) < effect.kept[name]
            below = ~kept[name] if name == "output_tokens_per_s" else kept[name]
            share = np.where(below, rng.uniform(*INSIDE, n), rng.uniform(*OUTSIDE, n))
            at[name] = self._limits[name] * share
        if "e2e_s" in at:
            total = at["e2e_s"]
        elif "output_tokens_per_s" in at:
            total = tokens / at["output_tokens_per_s"]
        elif "tpot_s" in at:
            total = at.get("ttft_s", at["tpot_s"]) + at["tpot_s"] * (tokens - 1)
        else:
            total = SECONDS_PER_TOKEN * tokens + at.get("ttft_s", np.zeros(n))
        first = at.get("ttft_s", total / tokens)
        if "tpot_s" in at and "e2e_s" in at:
            # As many tokens as fit the times: more where the limit is kept, fewer where it is not.
            exact = (total - first) / at["tpot_s"]
            fitting = np.where(kept["tpot_s"], np.ceil(exact), np.floor(exact))
            tokens = 1 + np.maximum(1, fitting).astype(np.int64)
        return {"output_tokens": tokens, "ttft_s": first, "e2e_s": total}

    def _counts(
        self, arm: str, effect: LiveEffect, tokens: npt.NDArray[Any], rng: np.random.Generator
    ) -> Columns:
        """Steps, drafted and accepted tokens, and rows of the target."""
        n = len(tokens)
        if arm == self._plan.baseline:
            counts = {"steps": tokens, "drafted": 0 * tokens, "accepted": 0 * tokens}
            rows = tokens
        else:
            gamma = draft_tokens(self._arms[arm], self._effects)
            length = np.full(n, self._effects.arms[arm].acceptance_length)
            if LENGTH in effect.values:
                length = self._values(LENGTH, effect.values[LENGTH], n, rng)
            exact = (tokens - 1) / length  # the prompt's own pass gives one token
            steps = np.maximum(1, np.floor(exact + rng.random(n))).astype(np.int64)
            accepted = rng.binomial(gamma * steps, np.clip((length - 1) / gamma, 0, 1))
            counts = {"steps": steps, "drafted": gamma * steps, "accepted": accepted}
            rows = (gamma + 1) * steps
        if ROWS in effect.values:
            low, high = self._bounds[ROWS]
            wanted = self._values(ROWS, effect.values[ROWS], n, rng) * tokens
            whole = np.floor(wanted + rng.random(n))  # right on average
            rows = np.clip(whole, np.ceil(low * tokens), np.floor(high * tokens)).astype(np.int64)
        return counts | {"target_tokens": rows}

    def _scores(
        self,
        arm: str,
        effect: LiveEffect,
        prompts: tuple[BoolArray, BoolArray],
        rng: np.random.Generator,
    ) -> FloatArray:
        right, checked = prompts
        n = len(right)
        if "quality" in effect.values:
            scores = self._values("quality", effect.values["quality"], n, rng)
        elif arm == self._plan.baseline:
            scores = right.astype(np.float64)
        else:
            gained, lost = self._effects.score_changes(arm)
            share = self._effects.quality
            flip = np.where(right, lost / max(share, 1e-12), gained / max(1 - share, 1e-12))
            scores = np.asarray(right ^ (rng.random(n) < flip), dtype=np.float64)
        return np.where(checked, scores, np.nan)

    def _values(
        self, metric: str, supposed: Scatter, n: int, rng: np.random.Generator
    ) -> FloatArray:
        """Values with the supposed mean and spread: a beta law between the bounds."""
        low, high = self._bounds[metric]
        mean = (supposed.mean - low) / (high - low)
        variance = (supposed.spread / (high - low)) ** 2
        if variance == 0:
            return np.full(n, float(supposed.mean))
        weight = mean * (1 - mean) / variance - 1
        if weight <= 1e-6:  # as wide as can be: every value is a bound
            unit = (rng.random(n) < mean).astype(np.float64)
        else:
            unit = rng.beta(mean * weight, (1 - mean) * weight, n)
        return np.asarray(low + (high - low) * unit, dtype=np.float64)


def _rows(numbers: Columns, failed: BoolArray) -> LiveRows:
    """As they are read from a stage, but for what no value is computed from."""
    n = len(failed)
    made_up = np.broadcast_to(np.array(["made up"], dtype=object), (n,))
    floats = {name: column.astype(np.float64) for name, column in numbers.items()}
    return LiveRows(
        time=np.arange(n),
        timed=np.ones(n, np.bool_),
        ids=made_up,
        prompts=made_up,
        texts={},
        failed=failed,
        numbers=floats,
    )
