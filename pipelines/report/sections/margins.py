"""What would change the verdict: the rules nearest to turning, and what it would be then."""

from __future__ import annotations

from pipelines.report.findings import stratum_label
from pipelines.report.inputs import ReportInputs
from pipelines.report.section import Cell, Section, Table, badge
from pipelines.report.sensitivity import Margin, margins
from pipelines.report.words import Words

SHOWN = 12


def margins_section(inputs: ReportInputs, words: Words) -> Section:
    """The deciding rules by their distance from turning."""
    found = margins(inputs.verdict, inputs.audit)
    if not found:
        return Section("margins", words("margins.title"), words("margins.none"))
    table = Table(
        words("margins.caption"),
        [words(f"margins.{name}") for name in _COLUMNS],
        [_row(margin, words) for margin in found[:SHOWN]],
        numeric=(2, 3, 4, 5),
        note=words("margins.note"),
    )
    notes = [words("margins.more", n=len(found) - SHOWN)] if len(found) > SHOWN else []
    alone = [margin for margin in found if margin.status != inputs.verdict.get("status")]
    lead = words("margins.lead") if alone else words("margins.lead_none")
    notes += [
        words("margins.prompts", rule=_name(margin, words), n=f"{margin.prompts:,}")
        for margin in found
        if margin.prompts is not None
    ]
    return Section("margins", words("margins.title"), lead, (), [table], notes)


_COLUMNS = ("rule", "outcome", "decides", "limit", "distance", "half_widths", "turned", "then")


def _name(margin: Margin, words: Words) -> str:
    rule = margin.rule
    name = f"{rule['name']} ({rule['arm']})" if rule.get("arm") else str(rule["name"])
    stratum = rule.get("stratum")
    return f"{name}, {stratum_label(str(stratum), words)}" if stratum else name


def _row(margin: Margin, words: Words) -> list[Cell]:
    half_widths = margin.half_widths
    return [
        _name(margin, words),
        badge(words, str(margin.rule["outcome"])),
        words.figure(margin.end),
        words.figure(margin.limit),
        words.figure(margin.distance),
        "–" if half_widths is None else f"{half_widths:.1f}",
        badge(words, margin.turned),
        badge(words, margin.status),
    ]
