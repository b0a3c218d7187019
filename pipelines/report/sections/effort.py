"""What the plan expected to take of people, and what the ledger has of it."""

from __future__ import annotations

from pipelines.report.inputs import ReportInputs
from pipelines.report.section import Section, Table
from specdecode.governance.effort import DecisionTaken, Effort, VerdictReached

NONE = "none on record"
_NO_PLAN, _NOT_ASKED = "not stated", "–"


def effort_section(inputs: ReportInputs) -> Section:
    """Expected hours beside what seals, verdicts, decisions and amendments took."""
    found = inputs.effort
    rows = [
        ["upkeep of draft and configuration", _expected(inputs, "hours_per_month", " a month"),
         _turns(found)],
        ["review of one release", _expected(inputs, "review_hours", ""), _review(found)],
        *([label, _NOT_ASKED, took] for label, took in _times(found)),
    ]  # fmt: skip
    table = Table(
        "Effort: expected and on record",
        ("what", "expected by the plan", "on record in the ledger"),
        rows,
        numeric=(1, 2),
        note="Times are elapsed, nights and waiting included: a ledger holds no hours of work. A "
        "hold is a verdict of INCONCLUSIVE.",
    )
    return Section("effort", "Effort", "", (), [table])


def hours(seconds: float | None) -> str:
    """Elapsed time in hours, the unit of the plan; minutes below one hour."""
    if seconds is None:
        return NONE
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _expected(inputs: ReportInputs, field: str, per: str) -> str:
    value = ((inputs.plan or {}).get("maintenance") or {}).get(field)
    return _NO_PLAN if value is None else f"{value:g} h{per}"


def _turns(found: Effort) -> str:
    if not (found.seals or found.amendments or found.holds):
        return NONE
    counts = ((found.seals, "seal"), (found.amendments, "amendment"), (found.holds, "hold"))
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)


def _review(found: Effort) -> str:
    decided = [verdict for verdict in found.verdicts if verdict.decisions]
    if not decided:
        return NONE
    return f"{hours(decided[-1].last_decision_s)} from verdict to last decision"


def _times(found: Effort) -> list[tuple[str, str]]:
    rows = []
    for verdict in found.verdicts:
        rows.append((f"seal to {_named(verdict)}", hours(verdict.since_seal_s)))
        rows += [
            (f"{_named(verdict)} to {_decided(taken)}", hours(taken.since_verdict_s))
            for taken in verdict.decisions
        ]
    rows += [(f"seal to {_decided(taken)}", hours(taken.since_seal_s)) for taken in found.decisions]
    if not found.verdicts:
        rows.append(("seal to verdict", NONE))
    if not any(verdict.decisions for verdict in found.verdicts):
        rows.append(("verdict to approval", NONE))
    return rows


def _named(verdict: VerdictReached) -> str:
    return f"{verdict.status.replace('_', ' ')} of {verdict.at}"


def _decided(taken: DecisionTaken) -> str:
    return f"“{taken.decision}” of {taken.at}"
