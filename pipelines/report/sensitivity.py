"""How far each deciding rule is from turning, and what the verdict would be then.

The outcome of a rule follows from where an interval lies to a limit. A rule turns when the end of
the interval that decides crosses that limit: the near end for a primary rule that was shown, the
far end for an alarm. Distances are compared in half widths of the rule's own interval, which is
about what another run of the same size could move by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.report.findings import AT_LEAST, AT_MOST

Json = Mapping[str, Any]
_HOLDS = ("undecided", "insufficient", "not_evaluated")


@dataclass(frozen=True)
class Margin:
    """One deciding rule.

    Attributes:
        rule: its entry in the verdict.
        end: the number that decides now; None where there is none.
        limit: what it is compared with; None likewise.
        half_widths: distance between the two in half widths of the interval; None where the rule
            has no interval that decides (losslessness, failed requests).
        turned: the outcome on the other side of the limit.
        status: the verdict then, all other rules as they are.
        prompts: prompts after which an open rule would be shown if its estimate stayed; None when
            it is not open, or its estimate lies on the wrong side.
    """

    rule: Json
    end: float | None
    limit: float | None
    half_widths: float | None
    turned: str
    status: str
    prompts: int | None = None

    @property
    def distance(self) -> float | None:
        """From the deciding number to the limit, in the unit of the rule; not negative."""
        if self.end is None or self.limit is None:
            return None
        return abs(self.end - self.limit)


def status_of(rules: Sequence[Json]) -> str:
    """The status that outcomes add up to; `specdecode.governance.decide` in short."""
    outcomes = [str(rule["outcome"]) for rule in rules]
    deciding = [rule for rule in rules if rule.get("counts", True)]
    if "invalid" in outcomes:
        return "INVALID"
    if any(rule["outcome"] == "fail" for rule in deciding):
        return "NO_GO"
    if any(rule["outcome"] in _HOLDS for rule in deciding):
        return "INCONCLUSIVE"
    return "GO" if any(rule["role"] == "primary" for rule in deciding) else "INCONCLUSIVE"


def margins(verdict: Json, audit: Json | None) -> list[Margin]:
    """Every deciding rule that has a distance, those that would change the verdict first.

    Args:
        verdict: the verdict document; an INVALID one has no margins.
        audit: the audit document, for the evidence against losslessness; None when there is none.
    """
    if verdict.get("status") == "INVALID":
        return []  # numbers of unusable evidence are no distance to anything
    rules = list(verdict.get("rules") or ())
    found = []
    for index, rule in enumerate(rules):
        if not rule.get("counts", True) or rule.get("role") not in ("primary", "guardrail"):
            continue
        margin = _of_audit(rule, audit) if rule.get("kind") == "losslessness" else _of_rule(rule)
        if margin is None:
            continue
        end, limit, half_widths, turned, prompts = margin
        then = status_of([*rules[:index], {**rule, "outcome": turned}, *rules[index + 1 :]])
        found.append(Margin(rule, end, limit, half_widths, turned, then, prompts))
    status = verdict.get("status")
    return sorted(
        found,
        key=lambda m: (m.status == status, m.half_widths is None, m.half_widths or 0.0),
    )


_Parts = tuple[float | None, float | None, float | None, str, int | None]


def _of_rule(rule: Json) -> _Parts | None:
    kind, outcome, limit = rule.get("kind"), str(rule.get("outcome")), rule.get("threshold")
    if outcome == "insufficient":
        return None, limit, None, "pass", None
    estimate, low, high = (rule.get(name) for name in ("estimate", "low", "high"))
    if limit is None or estimate is None or low is None or high is None:
        return None
    if kind == "error_rate":
        turns = {"pass": "fail", "fail": "pass"}
        return (estimate, limit, None, turns[outcome], None) if outcome in turns else None
    if kind not in AT_LEAST | AT_MOST:
        return None
    near, far = (low, high) if kind in AT_LEAST else (high, low)
    primary = rule.get("role") == "primary"
    end = far if outcome == "fail" or (outcome == "pass" and not primary) else near
    turned = {
        "pass": "undecided" if primary else "fail",
        "fail": "undecided" if primary else "pass",
        "undecided": "pass",
    }.get(outcome)
    if turned is None:
        return None
    half = (high - low) / 2
    return end, limit, abs(end - limit) / half if half > 0 else None, turned, _needed(rule, near)


def _needed(rule: Json, near: float) -> int | None:
    """Prompts until the near end would reach the limit: an interval narrows with √n."""
    estimate, limit, n = float(rule["estimate"]), float(rule["threshold"]), int(rule.get("n") or 0)
    beyond = estimate - limit if rule["kind"] in AT_LEAST else limit - estimate
    if rule["outcome"] != "undecided" or beyond <= 0 or not n:
        return None
    return math.ceil(round(n * ((estimate - near) / beyond) ** 2, 6))  # 200.000…1 is 200


def _of_audit(rule: Json, audit: Json | None) -> _Parts | None:
    found = ((audit or {}).get("arms") or {}).get(rule.get("arm")) or {}
    alpha, value, outcome = rule.get("threshold"), found.get("e_value"), rule.get("outcome")
    turns = {"pass": "fail", "fail": "pass", "undecided": "pass"}
    if not alpha or value is None or outcome not in turns:
        return None
    return float(value), 1.0 / alpha, None, turns[str(outcome)], None
