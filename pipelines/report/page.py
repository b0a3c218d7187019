"""The page: banner, tiles, sections, in the order a release manager reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.report.banner import Banner, banner
from pipelines.report.chart import Chart
from pipelines.report.inputs import ReportInputs
from pipelines.report.section import Section
from pipelines.report.sections.acceptance import acceptance_section
from pipelines.report.sections.cost import cost_section
from pipelines.report.sections.deviations import deviations_section
from pipelines.report.sections.effort import effort_section
from pipelines.report.sections.flips import flips_section
from pipelines.report.sections.load import load_section
from pipelines.report.sections.losslessness import losslessness_section
from pipelines.report.sections.margins import margins_section
from pipelines.report.sections.provenance import (
    environment_section,
    inputs_section,
    plan_section,
)
from pipelines.report.sections.quality import quality_section
from pipelines.report.sections.questions import questions_section
from pipelines.report.sections.rules import rules_section
from pipelines.report.sections.speed import speed_section
from pipelines.report.sections.strata import strata_section
from pipelines.report.tiles import Tile, tiles
from pipelines.report.words import Words, words
from specdecode import __version__

SECTIONS = (
    margins_section,
    flips_section,
    rules_section,
    speed_section,
    acceptance_section,
    losslessness_section,
    quality_section,
    load_section,
    cost_section,
    strata_section,
    questions_section,
    deviations_section,
    plan_section,
    effort_section,
    inputs_section,
    environment_section,
)


@dataclass(frozen=True)
class Page:
    """All content of the report."""

    words: Words
    title: str
    version: str
    verdict: Banner
    tiles: Sequence[Tile]
    sections: Sequence[Section]

    @property
    def charts(self) -> list[Chart]:
        """Every chart, in the order of the page."""
        return [chart for section in self.sections for chart in section.charts]


def build_page(inputs: ReportInputs, language: str = "en") -> Page:
    """Compute the content; pure.

    Args:
        inputs: what was measured and decided.
        language: one of `words.LANGUAGES`.
    """
    said = words(language)
    return Page(
        words=said,
        title=_title(inputs, said),
        version=__version__,
        verdict=banner(inputs.verdict, inputs.plan, said),
        tiles=tiles(inputs, said),
        sections=[section(inputs, said) for section in SECTIONS],
    )


def _title(inputs: ReportInputs, said: Words) -> str:
    params = inputs.params or {}
    return said(
        "page.title",
        target=(params.get("target") or {}).get("source") or said("page.no_target"),
        draft=(params.get("draft") or {}).get("source") or said("page.no_draft"),
        profile=params.get("profile") or said("page.no_profile"),
    )
