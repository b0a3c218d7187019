"""Every stratum with its size: an average must not hide a group that loses."""

from __future__ import annotations

from pipelines.report.estimate import read_estimate
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Section, Table
from pipelines.report.sections.rules import stratum_rules
from pipelines.report.words import Words

STRATA = ("category", "language", "difficulty")


def strata_section(inputs: ReportInputs, words: Words) -> Section:
    """One table a stratum."""
    tables = stratum_rules(inputs, words)
    for by in STRATA:
        scopes = inputs.scopes(by)
        rows = [
            _row(scope, arm, words)
            for scope in scopes
            for arm in inputs.candidates
            if arm in scope["comparisons"]
        ]
        if rows:
            tables.append(_table(by, rows, words))
    missing = [words(f"by.{by}") for by in STRATA if not inputs.scopes(by)]
    notes = [words("strata.missing", names=words("list_comma").join(missing))] if missing else []
    lead = words("strata.lead", insufficient=words("insufficient"), why=words("too_few"))
    return Section("strata", words("strata.title"), lead, (), tables, notes)


def _table(by: str, rows: list[list[str]], words: Words) -> Table:
    name = words(f"by.{by}")
    keys = ("arm", "strata.speed", "interval", "prompts", "tokens_per_step", "failed")
    columns = [name, *(words(key) for key in keys)]
    return Table(words("strata.by", by=name), columns, rows, numeric=range(2, 7))


def _row(scope: Json, arm: str, words: Words) -> list[str]:
    speed = read_estimate(scope["comparisons"][arm]["speed_ratio"])
    found, insufficient = scope["arms"][arm], words("insufficient")
    return [
        str(scope["value"]),
        arm,
        insufficient if speed.value is None else words.number(speed.value),
        insufficient if speed.low is None else words.interval(speed.low, speed.high),
        str(scope["prompts"]),
        words.number(found["metrics"]["mean_acceptance_length"]["pooled"]),
        words("of", part=found["errors"], whole=found["requests"]),
    ]
