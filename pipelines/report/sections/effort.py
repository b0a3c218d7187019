"""What the plan expected to take of people, and what the ledger has of it."""

from __future__ import annotations

from pipelines.report.inputs import ReportInputs
from pipelines.report.section import Section, Table
from pipelines.report.words import Words
from specdecode.governance.effort import DecisionTaken, Effort, VerdictReached

_NOT_ASKED = "–"


def effort_section(inputs: ReportInputs, words: Words) -> Section:
    """Expected hours beside what seals, verdicts, decisions and amendments took."""
    found = inputs.effort
    rows = [
        [
            words("effort.upkeep"),
            _expected(inputs, "hours_per_month", "effort.hours_a_month", words),
            _turns(found, words),
        ],
        [
            words("effort.review"),
            _expected(inputs, "review_hours", "effort.hours", words),
            _review(found, words),
        ],
        *([label, _NOT_ASKED, took] for label, took in _times(found, words)),
    ]
    table = Table(
        words("effort.caption"),
        [words(f"effort.{name}") for name in ("what", "expected", "record")],
        rows,
        numeric=(1, 2),
        note=words("effort.note"),
    )
    return Section("effort", words("effort.title"), "", (), [table])


def hours(seconds: float | None, words: Words) -> str:
    """Elapsed time in hours, the unit of the plan; minutes below one hour."""
    if seconds is None:
        return words("effort.none")
    if seconds >= 3600:
        return words("effort.hours", n=f"{seconds / 3600:.1f}")
    return words("effort.minutes", n=f"{seconds / 60:.0f}")


def _expected(inputs: ReportInputs, field: str, key: str, words: Words) -> str:
    value = ((inputs.plan or {}).get("maintenance") or {}).get(field)
    return words("not_stated") if value is None else words(key, n=f"{value:g}")


def _turns(found: Effort, words: Words) -> str:
    if not (found.seals or found.amendments or found.holds):
        return words("effort.none")
    counts = (("seals", found.seals), ("amendments", found.amendments), ("holds", found.holds))
    return words("list_comma").join(words.count(f"effort.{name}", n) for name, n in counts)


def _review(found: Effort, words: Words) -> str:
    decided = [verdict for verdict in found.verdicts if verdict.decisions]
    if not decided:
        return words("effort.none")
    return words("effort.to_last", took=hours(decided[-1].last_decision_s, words))


def _times(found: Effort, words: Words) -> list[tuple[str, str]]:
    rows = []

    def line(start: str, end: str, seconds: float | None) -> None:
        rows.append((words("effort.from_to", start=start, end=end), hours(seconds, words)))

    seal = words("effort.seal")
    for verdict in found.verdicts:
        line(seal, _named(verdict, words), verdict.since_seal_s)
        for taken in verdict.decisions:
            line(_named(verdict, words), _decided(taken, words), taken.since_verdict_s)
    for taken in found.decisions:
        line(seal, _decided(taken, words), taken.since_seal_s)
    if not found.verdicts:
        line(seal, words("effort.verdict"), None)
    if not any(verdict.decisions for verdict in found.verdicts):
        line(words("effort.verdict"), words("effort.approval"), None)
    return rows


def _named(verdict: VerdictReached, words: Words) -> str:
    return words("effort.at", what=verdict.status.replace("_", " "), at=verdict.at)


def _decided(taken: DecisionTaken, words: Words) -> str:
    decision = words.label("decision", taken.decision)
    return words("effort.at", what=words("effort.quoted", text=decision), at=taken.at)
