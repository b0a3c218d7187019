"""Stage `report`: one page a language, and reports/plots/, from the evidence."""

from __future__ import annotations

from pathlib import Path

from pipelines.report.chart import write_files
from pipelines.report.inputs import load_inputs
from pipelines.report.page import build_page
from pipelines.report.render import file_name, render
from pipelines.report.words import LANGUAGES
from pipelines.stages.command import run

PAGES = Path("reports")
PLOTS = Path("reports/plots")
PLOTTED = "en"  # the tables beside the plots are read by `dvc plots`, which knows their names


def write_report(root: Path) -> Path:
    """Write a page in every language, and the plots, below the root of the project.

    Returns:
        The English page.
    """
    inputs = load_inputs(root)
    (root / PAGES).mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES:
        page = build_page(inputs, language)
        (root / PAGES / file_name(language)).write_text(render(page), encoding="utf-8")
        if language == PLOTTED:
            write_files(page.charts, root / PLOTS)
    return root / PAGES / file_name(PLOTTED)


def main() -> None:
    """Writes reports/evaluation.html, reports/evaluation.ja.html and reports/plots."""
    write_report(Path.cwd())


if __name__ == "__main__":
    run(main)
