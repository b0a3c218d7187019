"""The plan's rules, one line each, as the gate computed them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Badge, Cell, Section, Table

_COLUMNS = ("rule", "arm", "role", "outcome", "estimate", "interval", "threshold", "n", "reason")
_NUMERIC = (4, 5, 6, 7)


def rules_section(inputs: ReportInputs) -> Section:
    """Rules over all prompts; those by stratum are counted here and listed under Strata."""
    rules = inputs.verdict.get("rules") or ()
    whole = [rule for rule in rules if not rule.get("stratum") and not _passed_check(rule)]
    checks = [_check_name(rule) for rule in rules if _passed_check(rule)]
    if not rules:
        return Section("rules", "Rules", "No rule was evaluated, so nothing was shown.")
    by_stratum = [rule for rule in rules if rule.get("stratum")]
    notes = [f"By stratum: {_counts(by_stratum)}. Listed under Strata."] if by_stratum else []
    if checks:
        notes.append(f"Integrity of the evidence, checks passed: {', '.join(checks)}.")
    return Section(
        "rules",
        "Rules",
        "A primary rule must be shown to hold. A guardrail fails when harm is shown. A secondary "
        "rule is reported only. A rule that lacks data has not passed.",
        (),
        [Table("Rules of the plan", _COLUMNS, [_row(rule) for rule in whole], _NUMERIC)],
        notes,
    )


def stratum_rules(inputs: ReportInputs) -> list[Table]:
    """The gate's findings by stratum: one table, or none when the plan names no stratum."""
    rules = [rule for rule in inputs.verdict.get("rules") or () if rule.get("stratum")]
    if not rules:
        return []
    # With blanks the longest of them breaks into two lines and leaves room for the reason.
    rows = [[str(rule["stratum"]).replace("=", " = "), *_row(rule)] for rule in rules]
    numeric = [index + 1 for index in _NUMERIC]
    return [Table("Rules of the plan by stratum", ("stratum", *_COLUMNS), rows, numeric)]


def _row(rule: Json) -> list[Cell]:
    return [
        str(rule["name"]),
        str(rule.get("arm") or "all"),
        str(rule.get("role") or "not stated"),
        Badge(str(rule["outcome"]).replace("_", " ")),
        _figure(rule.get("estimate")),
        _interval(rule.get("low"), rule.get("high")),
        _figure(rule.get("threshold")),
        _figure(rule.get("n")),
        str(rule.get("reason") or ""),
    ]


def _passed_check(rule: Json) -> bool:
    return rule.get("role") == "integrity" and rule["outcome"] == "pass"


def _check_name(rule: Json) -> str:
    return str(rule["name"]).removeprefix("integrity/").replace("_", " ")


def _figure(value: float | None) -> str:
    """Four significant digits; a rule need not have every number, which is a dash."""
    return "–" if value is None else f"{value:.4g}"


def _interval(low: float | None, high: float | None) -> str:
    return "–" if low is None and high is None else f"{_figure(low)} to {_figure(high)}"


def _counts(rules: Iterable[Json]) -> str:
    counts = Counter(str(rule["outcome"]).replace("_", " ") for rule in rules)
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
