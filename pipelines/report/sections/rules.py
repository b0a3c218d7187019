"""The plan's rules, one line each, as the gate computed them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pipelines.report.findings import finding, stratum_label
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Cell, Section, Table, badge
from pipelines.report.words import Words

_COLUMNS = ("rule", "arm", "role", "outcome", "estimate", "interval", "threshold", "n", "reason")
_NUMERIC = (4, 5, 6, 7)


def rules_section(inputs: ReportInputs, words: Words) -> Section:
    """Rules over all prompts; those by stratum are counted here and listed under Strata."""
    rules = inputs.verdict.get("rules") or ()
    title = words("rules.title")
    whole = [rule for rule in rules if not rule.get("stratum") and not _passed_check(rule)]
    checks = [_check_name(rule, words) for rule in rules if _passed_check(rule)]
    if not rules:
        return Section("rules", title, words("rules.none"))
    by_stratum = [rule for rule in rules if rule.get("stratum")]
    notes = []
    if by_stratum:
        notes.append(words("rules.by_stratum", counts=_counts(by_stratum, words)))
    if checks:
        notes.append(words("rules.checks", checks=words("list_comma").join(checks)))
    rows = [_row(rule, inputs, words) for rule in whole]
    table = Table(words("rules.caption"), _columns(words), rows, _NUMERIC)
    return Section("rules", title, words("rules.lead"), (), [table], notes)


def stratum_rules(inputs: ReportInputs, words: Words) -> list[Table]:
    """The gate's findings by stratum: one table, or none when the plan names no stratum."""
    rules = [rule for rule in inputs.verdict.get("rules") or () if rule.get("stratum")]
    if not rules:
        return []
    # With blanks the longest of them breaks into two lines and leaves room for the reason.
    rows = [
        [stratum_label(str(rule["stratum"]), words), *_row(rule, inputs, words)] for rule in rules
    ]
    numeric = [index + 1 for index in _NUMERIC]
    columns = [words("rules.stratum"), *_columns(words)]
    return [Table(words("rules.caption_strata"), columns, rows, numeric)]


def _columns(words: Words) -> list[str]:
    return [words(f"rules.{name}") for name in _COLUMNS]


def _row(rule: Json, inputs: ReportInputs, words: Words) -> list[Cell]:
    return [
        str(rule["name"]),
        str(rule.get("arm") or words("rules.all_arms")),
        words.label("role", str(rule["role"])) if rule.get("role") else words("not_stated"),
        badge(words, str(rule["outcome"])),
        words.figure(rule.get("estimate")),
        words.figures(rule.get("low"), rule.get("high")),
        words.figure(rule.get("threshold")),
        words.figure(rule.get("n")),
        finding(rule, inputs.plan, words),
    ]


def _passed_check(rule: Json) -> bool:
    return rule.get("role") == "integrity" and rule["outcome"] == "pass"


def _check_name(rule: Json, words: Words) -> str:
    name = str(rule["name"]).removeprefix("integrity/")
    return words.label("check", name).replace("_", " ")


def _counts(rules: Iterable[Json], words: Words) -> str:
    counts = Counter(str(rule["outcome"]) for rule in rules)
    return words("list_comma").join(
        f"{count} {words.label('outcome', outcome)}" for outcome, count in sorted(counts.items())
    )
