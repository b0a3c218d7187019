"""Requests of live stages of which one check says that they are no evidence, or do harm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specdecode.governance import Status, Verdict
from tests.governance.live.streams import (
    canary,
    failing,
    healthy,
    judged,
    scored,
    shadow,
    slow,
    watch,
    with_strata,
)

Rows = list[dict[str, Any]]
PLAN = with_strata()
ENOUGH = {shadow: 400, canary: 1600, watch: 400}


@dataclass(frozen=True)
class LiveFault:
    """Rows on which exactly this check does not pass, and rows beside them on which all do."""

    check: str
    stage: str
    planted: str
    beside: str
    rows: Callable[[], Rows]
    neighbour: Callable[[], Rows]
    answer: Status = Status.INVALID

    def verdicts(self) -> tuple[Verdict, Verdict]:
        """Of the fault, and of its neighbour."""
        both = (self.rows(), self.neighbour())
        return judged(PLAN, self.stage, both[0]), judged(PLAN, self.stage, both[1])


def shown(of: Callable[..., Rows], **how: Any) -> Callable[[], Rows]:
    """Enough requests to show all that is asked, were they healthy."""
    return lambda: of(ENOUGH[of], **how)


def but(of: Callable[..., Rows], place: int, **fields: Any) -> Callable[[], Rows]:
    """The same with one row changed."""

    def rows() -> Rows:
        found = of(ENOUGH[of])
        found[place] |= fields
        return found

    return rows


def losing(every: int) -> Callable[[], Rows]:
    """A shadow that lost the candidate's reply to every so manieth request."""
    return lambda: [r for i, r in enumerate(shadow(400)) if i % 2 == 0 or i // 2 % every]


def only_tools(rng: Any, index: int) -> dict[str, Any]:
    """Requests with a tool call fail, and no others."""
    return healthy(rng, index) | ({"error": "planted"} if index % 2 else {})


GREEDILY = {"sampling": {"name": "sampled", "temperature": 0.0}}
SHADOWED, BOTH, ALONE = shown(shadow), shown(canary), shown(watch)
FAULTS = (
    LiveFault("arms", "canary", "traffic for an arm that the plan does not release",
              "for the two compared", but(canary, 7, arm="token", drafted=30), BOTH),
    LiveFault("arms", "watch", "none of many requests was answered by the released arm",
              "all were", lambda: [r | {"arm": "plain", "drafted": 0} for r in watch(400)], ALONE),
    LiveFault("sampling", "shadow", "a request of the setting sampled decoded greedily",
              "with sampling",
              lambda: [r | (GREEDILY if i < 2 else {}) for i, r in enumerate(shadow(400))],
              SHADOWED),
    LiveFault("same_inputs", "shadow", "the copy of a request has another category",
              "the same one", but(shadow, 1, category="tool_call"), SHADOWED),
    LiveFault("in_time", "shadow", "a row without the time its request began", "with it",
              but(shadow, 0, started_at=None), SHADOWED),
    LiveFault("steps", "canary", "a row of a step of 0.3, which the canary does not have",
              "of 0.5", but(canary, 7, profile="0.3"), BOTH),
    LiveFault("sample_ratio", "canary", "the candidate gets 35 % of the step of 50 %", "50 %",
              shown(canary, share=0.35, step=0.5), BOTH),
    LiveFault("missing", "shadow", "every tenth reply of the candidate is lost, 2 % may be",
              "every hundredth", losing(10), losing(100)),
    LiveFault("baseline_works", "shadow", "every tenth request of the baseline fails",
              "none does", shown(shadow, baseline=failing(0.1)), SHADOWED),
    LiveFault("error_rate", "canary", "three requests of ten fail, 5 % may", "none fails",
              shown(canary, candidate=failing(0.3)), BOTH, Status.NO_GO),
    LiveFault("e2e_s", "shadow", "half of the replies come too late, a tenth may", "1 % does",
              shown(shadow, candidate=slow(0.5)), SHADOWED, Status.NO_GO),
    LiveFault("quality", "shadow", "one reply of ten is right, of the baseline seven",
              "seven of both", shown(shadow, candidate=scored(0.1)), SHADOWED, Status.NO_GO),
    LiveFault("error_rate", "watch", "three requests of ten fail after the release", "none fails",
              shown(watch, candidate=failing(0.3)), ALONE, Status.NO_GO),
)  # fmt: skip
ONE_STRATUM = LiveFault(
    "error_rate", "shadow", "all requests with tool calls fail, no others", "none fails",
    shown(shadow, candidate=only_tools), SHADOWED, Status.NO_GO,
)  # fmt: skip
