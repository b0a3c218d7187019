"""On a phone the page does not scroll sideways: what is too wide scrolls in a box of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pipelines.report.browser import browser
from pipelines.report.page import build_page
from pipelines.report.render import render
from pipelines.report.screenshot import find_browser
from pipelines.report.words import LANGUAGES
from specdecode.errors import MissingPrerequisiteError
from tests.pipelines import report_data
from tests.pipelines.test_report_sections import DEVIATION, FLIPS, SWEEP

ROOT = Path(__file__).resolve().parents[2]
PHONE, TALL = 390, 844
WIDTHS = """(() => {
  for (const folded of document.querySelectorAll('details')) folded.open = true;
  const root = document.documentElement;
  const wider = [...document.querySelectorAll('p, li, dd, summary, caption')]
    .filter(each => each.clientWidth && each.scrollWidth > each.clientWidth + 1)
    .map(each => each.textContent.slice(0, 60));
  return JSON.stringify([root.clientWidth, root.scrollWidth, wider]);
})()"""


def _has_browser() -> bool:
    try:
        find_browser()
    except MissingPrerequisiteError:
        return False
    return True


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _has_browser(), reason="no Chromium or Chrome on the PATH"),
]


@pytest.fixture(scope="module")
def everything():
    base = report_data.inputs(report_data.records(prompts=12))
    verdict = json.loads((ROOT / "reports/verdict.json").read_text(encoding="utf-8"))
    plan = yaml.safe_load((ROOT / "plans/default.yaml").read_text(encoding="utf-8"))
    return replace(
        base, verdict=verdict, plan=plan, sweep=SWEEP, flips=FLIPS, deviations=(DEVIATION,)
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_is_as_wide_as_a_phone(everything, language, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(render(build_page(everything, language)), encoding="utf-8")

    with browser(PHONE, TALL) as page:
        page.open(path.as_uri())
        page.wait_for("SHA-256")
        seen, needed, wider = json.loads(page.evaluate(WIDTHS))

    assert wider == []  # a digest of 64 letters breaks
    assert (seen, needed) == (PHONE, PHONE)
