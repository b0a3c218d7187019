"""What a plan took, as far as the ledger knows: turns of people, and the time between its lines.

Times are elapsed, nights and waiting included, by the clocks of whoever wrote the lines. They are
not hours worked, which nobody puts on record. Whether a decision counts is `check_approvals`'
matter; here it is only when it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specdecode.governance.chain import Entry
from specdecode.governance.verdict import Status

_DECISIONS = ("approval", "override")


@dataclass(frozen=True)
class DecisionTaken:
    """A person's decision on a verdict.

    Attributes:
        decision: approve, reject or override.
        at: time of its line.
        since_verdict_s: seconds since the line of the verdict; None where it has none before this.
        since_seal_s: seconds since the plan was last sealed; None where it was not.
    """

    decision: str
    at: str
    since_verdict_s: float | None
    since_seal_s: float | None


@dataclass(frozen=True)
class VerdictReached:
    """A verdict, and the decisions on it.

    Attributes:
        status: as recorded.
        verdict_sha256: SHA-256 of the verdict's bytes.
        at: time of its line.
        since_seal_s: seconds since the plan was last sealed; None where it was not.
        decisions: in the order in which they came.
    """

    status: str
    verdict_sha256: str
    at: str
    since_seal_s: float | None
    decisions: tuple[DecisionTaken, ...] = ()

    @property
    def last_decision_s(self) -> float | None:
        """Seconds from the verdict to the last decision on it; None where there is none."""
        return self.decisions[-1].since_verdict_s if self.decisions else None


@dataclass(frozen=True)
class Effort:
    """What is on record of one plan. All of it is empty when nothing is.

    Attributes:
        seals: how often it was sealed.
        amendments: deviations that were put on record.
        verdicts: reached under it, in order.
        decisions: on a verdict of it that has no line of its own.
    """

    seals: int = 0
    amendments: int = 0
    verdicts: tuple[VerdictReached, ...] = ()
    decisions: tuple[DecisionTaken, ...] = ()

    @property
    def holds(self) -> int:
        """Verdicts that decided nothing: everything stays as it is, and somebody looks again."""
        return sum(verdict.status == Status.INCONCLUSIVE for verdict in self.verdicts)

    def to_json(self) -> dict[str, Any]:
        """The fields and `holds` as a JSON-safe mapping."""
        return {"holds": self.holds, **asdict(self)}


def effort(entries: Sequence[Entry], plan_sha256: str, verdict_sha256: str | None = None) -> Effort:
    """What the lines of an intact ledger say of one plan.

    Args:
        entries: of the ledger, in order.
        plan_sha256: of the plan. One that was changed is another plan.
        verdict_sha256: of a verdict under this plan that may have no line of its own; decisions on
            it count too.
    """
    of_plan = [entry for entry in entries if entry.body.get("plan_sha256") == plan_sha256]
    seals = [entry for entry in of_plan if entry.kind == "seal"]
    verdicts = [entry for entry in of_plan if entry.kind == "verdict"]
    about: dict[int | None, list[DecisionTaken]] = {}
    for entry in entries:
        if entry.kind not in _DECISIONS:
            continue
        digest = entry.body.get("verdict_sha256")
        same = [v for v in verdicts if v.body.get("verdict_sha256") == digest]
        if digest is None or not (same or digest == verdict_sha256):
            continue
        verdict = _last_before(entry, same)
        taken = DecisionTaken(
            str(entry.body.get("decision") or entry.kind),
            entry.at,
            since_verdict_s=_seconds(verdict, entry),
            since_seal_s=_seconds(_last_before(entry, seals), entry),
        )
        about.setdefault(None if verdict is None else verdict.sequence, []).append(taken)
    return Effort(
        seals=len(seals),
        amendments=sum(entry.kind == "amendment" for entry in of_plan),
        verdicts=tuple(
            VerdictReached(
                str(entry.body.get("status")),
                str(entry.body.get("verdict_sha256")),
                entry.at,
                since_seal_s=_seconds(_last_before(entry, seals), entry),
                decisions=tuple(about.get(entry.sequence, ())),
            )
            for entry in verdicts
        ),
        decisions=tuple(about.get(None, ())),
    )


def effort_by_plan(entries: Sequence[Entry]) -> dict[str, Effort]:
    """`effort` of every plan that was sealed, by its SHA-256, in the order of the first seals."""
    plans = [entry.body.get("plan_sha256") for entry in entries if entry.kind == "seal"]
    return {plan: effort(entries, plan) for plan in plans if isinstance(plan, str)}


def _last_before(entry: Entry, others: Sequence[Entry]) -> Entry | None:
    before = [other for other in others if other.sequence < entry.sequence]
    return before[-1] if before else None


def _seconds(earlier: Entry | None, later: Entry) -> float | None:
    return None if earlier is None else (later.time - earlier.time).total_seconds()
