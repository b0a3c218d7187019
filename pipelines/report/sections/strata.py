"""Every stratum with its size: an average must not hide a group that loses."""

from __future__ import annotations

from pipelines.report.estimate import interval, number, read_estimate
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Section, Table
from pipelines.report.sections.rules import stratum_rules
from pipelines.report.sections.speed import TOO_FEW

STRATA = ("category", "language", "difficulty")
INSUFFICIENT = "insufficient"


def strata_section(inputs: ReportInputs) -> Section:
    """One table a stratum."""
    tables = stratum_rules(inputs)
    for by in STRATA:
        scopes = inputs.scopes(by)
        rows = [
            _row(inputs, scope, arm)
            for scope in scopes
            for arm in inputs.candidates
            if arm in scope["comparisons"]
        ]
        if rows:
            tables.append(_table(by, rows))
    notes = (
        [f"No numbers: {', '.join(missing)}."]
        if (missing := [by for by in STRATA if not inputs.scopes(by)])
        else []
    )
    return Section(
        "strata",
        "Strata",
        f"“{INSUFFICIENT}” means {TOO_FEW}: no interval can be given, and that is not a pass.",
        (),
        tables,
        notes,
    )


def _table(by: str, rows: list[list[str]]) -> Table:
    return Table(
        f"By {by}",
        (by, "arm", "speed ratio", "interval", "prompts", "tokens per step", "failed"),
        rows,
        numeric=range(2, 7),
    )


def _row(inputs: ReportInputs, scope: Json, arm: str) -> list[str]:
    speed = read_estimate(scope["comparisons"][arm]["speed_ratio"], reason=INSUFFICIENT)
    found = scope["arms"][arm]
    return [
        str(scope["value"]),
        arm,
        INSUFFICIENT if speed.value is None else number(speed.value),
        INSUFFICIENT if speed.low is None else interval(speed.low, speed.high),
        str(scope["prompts"]),
        number(found["metrics"]["mean_acceptance_length"]["pooled"]),
        f"{found['errors']} of {found['requests']}",
    ]
