"""The Japanese page says everything in Japanese but what the data themselves say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from pipelines.report.page import build_page
from pipelines.report.render import file_name, render
from pipelines.report.words import LANGUAGES
from tests.pipelines import report_data
from tests.pipelines.test_report_sections import DEVIATION, FLIPS, SWEEP

ROOT = Path(__file__).resolve().parents[2]
# Two English words in a row, of three letters or more: a sentence, or a piece of one.
ENGLISH = re.compile(r"[a-z]{3,} [a-z]{3,}")


class Reader(HTMLParser):
    """Visible texts that are not marked as another language, and alternative texts."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.texts += [given[name] for name in ("aria-label", "data-column") if given.get(name)]
        if tag not in ("meta", "br", "use", "path"):
            hidden = tag in ("style", "code") or ("lang" in given and tag != "html")
            self.open.append((tag, hidden))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if data.strip() and not any(hidden for _, hidden in self.open):
            self.texts.append(data.strip())


@pytest.fixture(scope="module")
def inputs():
    base = report_data.inputs(report_data.records(prompts=4))
    verdict = json.loads((ROOT / "reports/verdict.json").read_text(encoding="utf-8"))
    plan = yaml.safe_load((ROOT / "plans/default.yaml").read_text(encoding="utf-8"))
    return replace(base, verdict=verdict, plan=plan)


@pytest.fixture(scope="module")
def pages(inputs):
    everything = replace(inputs, sweep=SWEEP, flips=FLIPS, deviations=(DEVIATION,))
    return {language: build_page(everything, language) for language in LANGUAGES}


@pytest.fixture(scope="module")
def rendered(pages):
    return {language: render(page) for language, page in pages.items()}


def leftovers(text):
    reader = Reader()
    reader.feed(text)
    assert len(reader.texts) > 500
    return {text for text in reader.texts if ENGLISH.search(text)}


def test_no_english_sentence_is_left_on_the_page(rendered):
    assert leftovers(rendered["ja"]) == set()
    assert len(leftovers(rendered["en"])) > 100  # the search does find English


def test_missing_files_are_said_to_be_missing_in_japanese(inputs):
    # Without its plan a tail's rule cannot be named, and the gate's sentence is marked as English.
    names = ("audit", "manifest", "environment", "draft", "plan", "params")
    bare = replace(report_data.without(inputs, *names), records=(), checkers={})
    text = render(build_page(bare, "ja"))
    assert leftovers(text) == set()
    assert "この実行の監査がない" in text
    assert '<span lang="en">p95 tpot ratio to the baseline' in text


@pytest.mark.parametrize(("language", "other"), [("en", "ja"), ("ja", "en")])
def test_the_pages_name_their_language_and_lead_to_each_other(rendered, language, other):
    assert f'<html lang="{language}">' in rendered[language]
    link = f'href="{file_name(other)}" hreflang="{other}" lang="{other}"'
    assert link in rendered[language]


def test_both_languages_show_the_same_numbers(pages):
    figures = [
        [tile.value.split(" ")[0] for tile in page.tiles if tile.value[0] in "+-0123456789"]
        for page in pages.values()
    ]
    assert figures[0] == figures[1]
    for charts in zip(*(page.charts for page in pages.values()), strict=True):
        names, numbers = zip(*((chart.name, _numbers(chart)) for chart in charts), strict=True)
        assert len(set(names)) == 1
        assert numbers[0] == numbers[1], names[0]


def _numbers(chart):
    return [[cell for cell in row if isinstance(cell, int | float)] for row in chart.rows]


def test_texts_of_the_plan_stay_as_written_and_are_marked(inputs, rendered):
    owner = inputs.verdict["owner"]
    assert f'<span lang="">{owner}</span>' in rendered["ja"]
