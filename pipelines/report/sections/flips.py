"""Which assumption the verdict hangs on: the evaluation repeated with one of them changed."""

from __future__ import annotations

from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Cell, Section, Table, badge, quote
from pipelines.report.words import Words

_COLUMNS = ("name", "changed", "verdict", "rule", "value", "limit")


def flips_section(inputs: ReportInputs, words: Words) -> Section:
    """One line per changed assumption, and how many turn the verdict."""
    title, document = words("flips.title"), inputs.flips
    if document is None:
        return Section("flips", title, words("flips.missing"))
    base = document.get("base") or {}
    flips = [flip for flip in document.get("flips") or () if isinstance(flip, dict)]
    if not flips:
        return Section("flips", title, words("flips.empty"))
    expected = str(base.get("verdict"))
    turned = sum(str(flip.get("verdict")) != expected for flip in flips)
    lead = words(
        "flips.lead",
        base=words.label("outcome", expected.lower()),
        profile=document.get("profile"),
        turned=turned,
        n=len(flips),
    )
    table = Table(
        words("flips.caption"),
        [words(f"flips.{name}") for name in _COLUMNS],
        [_row(flip, words) for flip in flips],
        numeric=(4, 5),
        note=words("flips.note"),
    )
    differs = base.get("verdict") != inputs.verdict.get("status")
    return Section(
        "flips", title, lead, (), [table], [words("flips.other_base")] if differs else []
    )


def _row(flip: Json, words: Words) -> list[Cell]:
    deciding = flip.get("deciding") or {}
    value = words.figure(deciding.get("value"))
    if deciding.get("low") is not None or deciding.get("high") is not None:
        value += f" ({words.figures(deciding.get('low'), deciding.get('high'))})"
    return [
        str(flip.get("name")),
        quote(words, str(flip.get("changed") or ""), "en"),
        badge(words, str(flip.get("verdict"))),
        str(deciding.get("rule") or "–"),
        value,
        words.figure(deciding.get("limit")),
    ]
