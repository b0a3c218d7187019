"""The evaluation page: complete, honest about what is missing, and safe to open anywhere."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pyarrow as pa
import pytest

from pipelines.report.inputs import ReportInputs
from pipelines.report.page import Page, build_page
from pipelines.report.render import render
from specdecode.governance import decide, load_plan
from specdecode.measurement.records import to_table
from specdecode.measurement.summary import summarise
from tests.pipelines import report_data

STATUSES = {
    "GO": "GO",
    "NO_GO": "NO GO",
    "INCONCLUSIVE": "INCONCLUSIVE",
    "INVALID": "INVALID",
}
VOID = {"meta", "link", "br", "img", "hr", "input", "path", "use"}
LOADING = {"src", "href", "xlink:href", "srcset", "action", "data", "poster"}


class Reader(HTMLParser):
    """Collects what the tests ask about a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if attributes.get("id"):
            self.ids.append(attributes["id"])

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


@pytest.fixture(scope="module")
def full() -> ReportInputs:
    return report_data.inputs(report_data.records(prompts=24))


@pytest.fixture(scope="module")
def page(full) -> Page:
    return build_page(full)


@pytest.fixture(scope="module")
def html(page) -> str:
    return render(page)


@pytest.mark.parametrize(("status", "label"), STATUSES.items())
def test_each_verdict_leads_the_page_with_its_reasons(full, status, label):
    text = render(build_page(replace(full, verdict=report_data.verdict(status))))
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", text)
    assert heading is not None
    assert heading[1] == label
    before_main = text.split("<main>")[0]
    assert "the audit found no deviation of block" in before_main
    assert "a change after which the speed ratio is below 1.1" in before_main


def test_a_go_says_what_overturns_it_and_others_say_when_to_ask_again(full):
    go = render(build_page(full))
    held = render(build_page(replace(full, verdict=report_data.verdict("INCONCLUSIVE"))))
    assert "greedy output differs beyond a tie" in go
    assert "Ask again when: the draft is retrained" in held


def test_an_unknown_status_is_shown_as_invalid(full):
    verdict = report_data.verdict("GO") | {"status": "PERHAPS"}
    text = render(build_page(replace(full, verdict=verdict)))
    assert re.search(r"<h1[^>]*>INVALID</h1>", text)
    assert "PERHAPS" in text


def test_the_page_loads_nothing_and_runs_nothing(html):
    reader = read(html)
    targets = [
        value
        for tag, attributes in reader.tags
        for name, value in attributes.items()
        if name in LOADING and value is not None and tag != "a"
    ]
    assert targets
    assert all(target.startswith("#") for target in targets)
    assert not {"script", "iframe", "link", "object", "embed"} & {tag for tag, _ in reader.tags}
    assert not [name for _, attributes in reader.tags for name in attributes if name[:2] == "on"]
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)


def test_every_picture_says_in_words_what_it_shows(html):
    reader = read(html)
    pictures = [attributes for tag, attributes in reader.tags if tag in ("svg", "img")]
    assert len(pictures) >= 8
    for attributes in pictures:
        if "alt" in attributes:
            assert attributes["alt"]
            continue
        assert attributes["role"] == "img"
        label = attributes["aria-labelledby"]
        title = re.search(rf'<title id="{label}">([^<]+)</title>', html)
        assert title is not None
        assert len(title[1]) > 40


def test_links_lead_somewhere_and_ids_are_unique(html):
    reader = read(html)
    assert len(reader.ids) == len(set(reader.ids))
    links = [attributes["href"] for tag, attributes in reader.tags if tag == "a"]
    inside = {link.removeprefix("#") for link in links if link.startswith("#")}
    assert inside <= set(reader.ids)
    assert [link for link in links if not link.startswith("#")] == ["evaluation.ja.html"]


def test_headings_start_at_one_and_skip_no_level(html):
    headings = read(html).headings
    assert headings.count(1) == 1
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))


def test_the_same_inputs_give_the_same_bytes(full, html):
    assert render(build_page(full)) == html


def test_hostile_text_is_shown_and_not_run(full):
    attack = '<script>alert("x")</script><img src=http://evil.example onerror=alert(1)>'
    verdict = report_data.verdict("GO") | {"reasons": [attack], "claim": attack}
    manifest = {"entries": {attack: attack}, "manifest_sha256": attack}
    params = {"profile": attack, "target": {"source": attack}}
    rows = [
        row.model_copy(update={"category": attack, "arm": row.arm.replace("token", attack)})
        for row in report_data.records(prompts=6)
    ]
    text = render(
        build_page(
            replace(
                full,
                verdict=verdict,
                manifest=manifest,
                params=params,
                metrics=summarise(to_table(rows), seed=3),
                records=tuple(rows),
            )
        )
    )
    tags = read(text).tags
    assert "script" not in {tag for tag, _ in tags}
    assert not [attributes for _, attributes in tags if "onerror" in attributes]
    assert "&lt;script&gt;" in text


def test_missing_files_are_said_to_be_missing(full):
    bare = report_data.without(full, "audit", "manifest", "environment", "draft", "plan", "params")
    text = render(build_page(replace(bare, records=(), checkers={})))
    assert "there is no audit of this run" in text
    assert "This run cannot be reproduced" in text
    assert "Environment: not recorded" in text


def test_the_page_says_whether_the_plan_was_sealed(full):
    entries = dict(full.manifest["entries"])
    sealed = {**full.manifest, "entries": entries | {"plan.seal": "5a" * 32}}
    assert "hashed, not sealed" in render(build_page(full))
    text = render(build_page(replace(full, manifest=sealed)))
    assert "hashed, not sealed" not in text
    assert f"sealed before these rows were measured, seal SHA-256 {'5a' * 32}" in text


def test_a_stratum_without_an_interval_is_insufficient_and_not_zero():
    rows = report_data.records(prompts=13)
    only = [
        row.model_copy(update={"language": "pt" if row.prompt_id == "p-000" else "en"})
        for row in rows
    ]
    found = build_page(report_data.inputs(only))
    strata = next(section for section in found.sections if section.name == "strata")
    by_language = next(table for table in strata.tables if table.caption == "By language")
    single = [row for row in by_language.rows if row[0] == "pt"]
    assert single
    assert all(row[2] == "insufficient" and row[4] == "1" for row in single)


def test_unmeasured_values_never_read_as_zero():
    silent = dict.fromkeys(
        (
            "steps",
            "drafted",
            "accepted",
            "acceptance_histogram",
            "target_tokens",
            "peak_rss_bytes",
            "quality",
            "draft_s",
            "verify_s",
            "other_s",
        )
    )
    rows = [row.model_copy(update=silent) for row in report_data.records(prompts=8)]
    found = build_page(report_data.inputs(rows))
    charts = {chart.name: chart for chart in found.charts}
    for name in ("acceptance_histogram", "acceptance_position", "time_budget", "quality"):
        assert charts[name].missing, name
        assert charts[name].svg is None
    text = render(found)
    assert "Peak resident memory: not measured" in text
    tile = next(tile for tile in found.tiles if tile.label == "Quality, block")
    assert tile.value == "not measured"
    cost = next(section for section in found.sections if section.name == "cost")
    assert all(row[2] == "not measured" for row in cost.tables[1].rows)


def test_a_run_without_rows_still_has_a_page():
    empty = summarise(to_table([]), seed=3)
    verdict = report_data.verdict("INVALID") | {"rules": []}
    text = render(build_page(ReportInputs(metrics=empty, verdict=verdict)))
    assert re.search(r"<h1[^>]*>INVALID</h1>", text)
    assert "No rule was evaluated" in text


def test_the_gate_s_own_verdict_fits_the_page(full):
    table: pa.Table = to_table(full.records)
    verdict = decide(load_plan("plans/default.yaml"), table, full.audit).to_json()
    found = build_page(replace(full, verdict=verdict))
    rules = next(section for section in found.sections if section.name == "rules")
    shown = {row[0] for row in rules.tables[0].rows}
    whole = [rule for rule in verdict["rules"] if not rule["stratum"]]
    passed = [rule for rule in whole if (rule["role"], rule["outcome"]) == ("integrity", "pass")]
    assert shown == {rule["name"] for rule in whole if rule not in passed}
    assert passed
    for rule in passed:
        assert rule["name"].removeprefix("integrity/").replace("_", " ") in rules.notes[-1]
    assert found.verdict.status == verdict["status"]
    assert list(found.verdict.reasons) == verdict["reasons"]
