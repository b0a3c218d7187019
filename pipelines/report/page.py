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
from pipelines.report.sections.effort import effort_section
from pipelines.report.sections.losslessness import losslessness_section
from pipelines.report.sections.provenance import (
    environment_section,
    inputs_section,
    plan_section,
)
from pipelines.report.sections.quality import quality_section
from pipelines.report.sections.rules import rules_section
from pipelines.report.sections.speed import speed_section
from pipelines.report.sections.strata import strata_section
from pipelines.report.tiles import Tile, tiles
from specdecode import __version__

SECTIONS = (
    rules_section,
    speed_section,
    losslessness_section,
    acceptance_section,
    quality_section,
    cost_section,
    strata_section,
    plan_section,
    effort_section,
    inputs_section,
    environment_section,
)


@dataclass(frozen=True)
class Page:
    """All content of the report."""

    title: str
    version: str
    verdict: Banner
    tiles: Sequence[Tile]
    sections: Sequence[Section]

    @property
    def charts(self) -> list[Chart]:
        """Every chart, in the order of the page."""
        return [chart for section in self.sections for chart in section.charts]


def build_page(inputs: ReportInputs) -> Page:
    """Compute the content; pure."""
    return Page(
        title=_title(inputs),
        version=__version__,
        verdict=banner(inputs.verdict),
        tiles=tiles(inputs),
        sections=[section(inputs) for section in SECTIONS],
    )


def _title(inputs: ReportInputs) -> str:
    params = inputs.params or {}
    target = (params.get("target") or {}).get("source") or "target not recorded"
    draft = (params.get("draft") or {}).get("source") or "draft not recorded"
    profile = params.get("profile") or "profile not recorded"
    return f"Speculative decoding of {target} with {draft}: {profile} evaluation"
