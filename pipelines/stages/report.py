"""Stage `report`: reports/evaluation.html and reports/plots/ from the evidence."""

from __future__ import annotations

from pathlib import Path

from pipelines.report.chart import write_files
from pipelines.report.inputs import load_inputs
from pipelines.report.page import build_page
from pipelines.report.render import render
from pipelines.stages.command import run

PAGE = Path("reports/evaluation.html")
PLOTS = Path("reports/plots")


def write_report(root: Path) -> Path:
    """Write the page and the plots below the root of the project.

    Returns:
        The page.
    """
    page = build_page(load_inputs(root))
    target = root / PAGE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(page), encoding="utf-8")
    write_files(page.charts, root / PLOTS)
    return target


def main() -> None:
    """Writes reports/evaluation.html and reports/plots."""
    write_report(Path.cwd())


if __name__ == "__main__":
    run(main)
