"""Chances and times as a person sees them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from specdecode.governance.power_ladder import ladder
from specdecode.governance.power_outcome import Ended, Simulation
from specdecode.governance.power_picture import bars, ladder_svg, svg
from specdecode.governance.verdict import Status

G, I, N = Status.GO, Status.INCONCLUSIVE, Status.NO_GO  # noqa: E741 - the study's letters
SVG = "{http://www.w3.org/2000/svg}"


def stage(name, *statuses):
    return Simulation.of(name, "prompt", 0, [Ended(status, 30) for status in statuses])


FAST = stage("offline", G, G)
CANARY = Simulation.of(
    "canary", "request", 0,
    [Ended(G, 10), Ended(N, 1), Ended(N, 100), Ended(I, 1000)], most=1000,
)  # fmt: skip


def texts(root):
    return [node.text for node in root.iter(f"{SVG}text")]


def drawn(ladders, beside=()):
    picture = ladder_svg(ladders, 0.8, beside)
    assert picture == ladder_svg(ladders, 0.8, beside)
    return ET.fromstring(picture)  # noqa: S314 - made here


def test_the_picture_in_a_terminal_has_a_line_for_each_status_and_the_wanted_mark():
    lines = bars(FAST.chances, 0.8).splitlines()

    assert [line.split()[0] for line in lines] == ["GO", "INCONCLUSIVE", "NO_GO", "INVALID"]
    assert lines[0].count("█") == 39
    assert lines[0].index("┃") - lines[0].index("█") == 32
    assert "100.0%" in lines[0]
    assert "█" not in lines[1]


def test_the_svg_is_well_formed_and_its_bars_fill_the_width():
    found = {"a < b, at any length a name may have": stage("offline", G, I, N)}
    picture = svg(found, 0.8)
    root = ET.fromstring(picture)  # noqa: S314 - made here
    bars_ = [float(node.get("width")) for node in root.iter("{http://www.w3.org/2000/svg}rect")
             if node.get("height") == "28"]  # fmt: skip

    assert picture == svg(found, 0.8)
    assert sum(bars_) == pytest.approx(480, abs=0.5)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a < b, at any length a n…" in texts
    assert "a < b, at any length a name may have: GO in" in root[0].text


def test_without_a_wish_there_is_no_mark():
    assert "┃" not in bars(FAST.chances, None)


def test_every_stage_has_a_bar_and_so_has_the_way_through_all():
    found = ladder({"offline": stage("offline", G, G, I, N), "canary": CANARY})
    root = drawn({"planned": found})

    assert [t for t in texts(root) if t in ("offline", "canary", "all in turn")] == [
        "offline", "canary", "all in turn"]  # fmt: skip
    assert "one look at 30 prompts" in texts(root)
    assert "planned, all in turn: GO in 25% of 4 runs" in root[0].text
    widths = [float(node.get("width")) for node in root.iter(f"{SVG}rect")
              if node.get("height") == "28"]  # fmt: skip
    assert sum(widths) == pytest.approx(3 * 480, abs=1)


def test_the_curve_rises_by_each_run_where_it_was_decided():
    root = drawn({"planned": ladder({"canary": CANARY})})
    left, width = 720, 280
    steps = {}
    for node in root.iter(f"{SVG}path"):
        if node.get("fill", "").startswith("#") and not node.get("class"):
            steps[node.get("fill")] = [
                (float(x), float(y)) for x, y in re.findall(r"H([\d.]+)V([\d.]+)", node.get("d"))
            ]
    no_go, go = steps["#b5432f"], steps["#2a7f5f"]
    third = width / 3  # a power of ten on a scale of three

    assert [x for x, _ in no_go[:3]] == pytest.approx(
        [left, left + third, left + 2 * third], abs=0.1
    )
    heights = [no_go[0][1] - y for _, y in no_go[:3]]
    assert heights == pytest.approx([0, 7, 14])  # a quarter of 28 for each of four runs
    assert [x for x, _ in go[:1]] == pytest.approx([left + third], abs=0.1)
    assert "half by 10" in texts(root)
    assert {"1", "10", "100", "1k"} <= set(texts(root))


def test_a_watch_that_heard_nothing_has_no_curve():
    watch = Simulation.of("watch", "request", 0, [Ended(G, 400, silent=True)] * 3, most=400)
    assert "fewer than half before the end" in texts(drawn({"": ladder({"watch": watch})}))
    fills = {node.get("fill") for node in drawn({"": ladder({"watch": watch})}).iter(f"{SVG}path")}

    assert fills == {"#ececec", None, "none"}


@pytest.mark.parametrize(("beside", "lines"), [((), 2), (("harm to e2e_s",), 1)])
def test_no_go_is_wanted_of_harm(beside, lines):
    found = {"planned": ladder({"offline": FAST}), "harm to e2e_s": ladder({"offline": FAST})}
    root = drawn(found, beside)

    assert len(list(root.iter(f"{SVG}line"))) == lines
