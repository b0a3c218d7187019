"""The page, the picture and the command of the router's latency, without measuring anything."""

from __future__ import annotations

import copy
import json

import pytest

from pipelines.route_bench import __main__ as program
from pipelines.route_bench.arms import ARMS, DIRECT, chosen
from pipelines.route_bench.measure import Plan, measure
from pipelines.route_bench.page import BEGIN, END, interval, tables, write_page
from pipelines.route_bench.picture import draw
from pipelines.route_bench.servers import LITELLM, Timing, litellm_config
from specdecode.errors import ConfigError
from tests.pipelines.route_bench_data import (
    GOOD,
    MEDIAN,
    report_of,
    rounds_of,
)

PAGE = f"# Title\n{BEGIN}\nold\n{END}\nReasons\n"


@pytest.fixture(autouse=True)
def _any_version(monkeypatch):
    monkeypatch.setattr(program, "_locked", lambda name: "1.2.3")


def test_the_page_shows_every_way_and_what_was_met(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    report = report_of()

    picture = tmp_path / "images/router.png"
    write_page(page, report, picture)
    write_page(page, report, picture)

    text = page.read_text()
    assert text.startswith(f"# Title\n{BEGIN}\n") and text.endswith(f"{END}\nReasons\n")
    assert text.count("](images/router.png)\n" + END) == 1
    assert "old" not in text and text.count("### What had to be met") == 1
    assert "litellm 1.2.3" in text
    # The server answers in 5 to 6 ms, and in 1 ms more in every round.
    assert "| router, plain proxying | 800 | 0 | 7.40 | 9.36 | 0.40 (0.40 to 0.40) |" in text
    assert "| 0.50 (5 %) | 100 % | 0.10 |" in text
    assert text.count("| the server itself | ") == 3


def test_the_page_and_the_picture_also_of_a_part(tmp_path):
    report = report_of({DIRECT: 0.0, "router-off": 2.0}, rounds=1)

    text = tables(report)
    draw(report, tmp_path / "a" / "picture.png")

    assert "2.00 (one round: no interval)" in text
    assert "Router minus LiteLLM" not in text
    assert "| **no** |" in text
    assert (tmp_path / "a" / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_proxy_that_cannot_keep_up_leaves_room_for_the_others(tmp_path):
    report = report_of(GOOD | {LITELLM: 3000.0}, rates=(100.0, 20.0))

    text = tables(report)
    draw(report, tmp_path / "picture.png")

    assert "### 100 requests a second: whole reply" in text
    assert "### 20 requests a second: stream, to its end" in text
    assert "| LiteLLM's proxy | 800 | 0 | 3007.00 |" in text
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_a_page_without_a_place_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n")

    with pytest.raises(ConfigError, match="measured: begin"):
        write_page(page, report_of(), tmp_path / "router.png")

    assert page.read_text() == "# Title\n"


def test_an_interval_that_is_not_there_says_why():
    assert interval({"estimate": None, "low": None, "why": "no round"}) == "no round"


def test_every_way_has_the_same_requests_in_an_order_of_its_own():
    plan = Plan(seconds=2.0)

    assert plan.due(1, 100, "json") == plan.due(1, 100, "json") != plan.due(2, 100, "json")
    assert plan.due(1, 100, "json") != plan.due(1, 100, "stream")
    assert 100 < len(plan.due(1, 100, "json")) < 300
    assert 20 < len(plan.due(1, 20, "json")) < 80
    assert max(plan.due(1, 100, "json")) < 2.0
    orders = {tuple(arm.name for arm in plan.order(n, 100, "json")) for n in range(1, 9)}
    assert len(orders) > 4 and all(sorted(order) == sorted(ARMS) for order in orders)


def test_the_server_itself_is_always_measured():
    assert [arm.name for arm in chosen(["router-off"])] == [DIRECT, "router-off"]
    with pytest.raises(ConfigError, match="no arm nonsense; there are: direct, "):
        chosen(["nonsense"])


def test_litellm_forwards_to_the_server_and_nowhere_else():
    said = json.dumps(litellm_config("http://127.0.0.1:9"))

    assert '"api_base": "http://127.0.0.1:9/v1"' in said
    assert '"telemetry": false' in said


def test_rounds_of_another_measurement_are_not_mixed_in(tmp_path):
    whole = rounds_of(GOOD, rounds=2)
    for each in whole:
        (tmp_path / f"round-{each['round']:03d}.json").write_text(json.dumps(each))
    plan = Plan(seconds=1.0, rounds=2)

    assert measure(plan, tmp_path, pytest.fail) == whole  # nothing is left to measure
    with pytest.raises(ConfigError, match="another measurement"):
        measure(Plan(seconds=2.0, rounds=2), tmp_path, pytest.fail)
    with pytest.raises(ConfigError, match="another measurement"):
        measure(Plan(seconds=1.0, timing=Timing(delay_ms=1.0)), tmp_path, pytest.fail)
    (tmp_path / "plan.json").write_text("half")
    with pytest.raises(ConfigError, match="is not the plan"):
        measure(plan, tmp_path, pytest.fail)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--seconds", "0"], "--seconds 0.0: give a number above 0"),
        (["--rate", "nan"], "--rate nan: give a number above 0"),
        (["--rate", "20", "20"], "--rate: give one or more rates, each once"),
        (["--rounds", "-1"], "--rounds -1: give a number above 0"),
        (["--seed", "-1"], "--seed -1"),
        (["--seconds", "0.001"], "a block would hold no request"),
        (["--arms", "nonsense"], "no arm nonsense"),
        (["--redraw"], "cannot be read"),
    ],
)
def test_what_the_caller_can_fix_is_one_line(words, says, tmp_path, capsys):
    rest = ["--out", str(tmp_path), "--report", str(tmp_path / "report.json")]

    assert program.main([*words, *rest]) == 2
    assert says in capsys.readouterr().err


def test_redrawing_needs_a_report_of_this_kind(tmp_path, capsys):
    files = {name: tmp_path / name for name in ("report", "page", "picture")}
    words = ["--redraw", *(w for name, path in files.items() for w in (f"--{name}", str(path)))]
    files["page"].write_text(PAGE)
    files["report"].write_text("{}")
    assert program.main(words) == 2
    assert "no report of this measurement" in capsys.readouterr().err

    files["report"].write_text(json.dumps(report_of()))
    assert program.main(words) == 0
    assert "router, plain proxying" in files["page"].read_text()
    assert files["picture"].is_file()

    files["report"].write_text(json.dumps(report_of(copy.copy(GOOD) | {"router-off": 2.0})))
    assert program.main(words) == 1
    assert f"Not met: router-off: {MEDIAN}." in capsys.readouterr().err
