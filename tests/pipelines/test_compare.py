from __future__ import annotations

import copy

import pytest

from pipelines.compare import __main__ as program
from pipelines.compare.arms import PLAIN, SHOWN, engine_of
from pipelines.compare.page import BEGIN, END, ratio, tables, write_page
from pipelines.compare.picture import draw
from pipelines.external.environments import environment
from specdecode.errors import ConfigError

RATIO = {"estimate": 1.31, "low": 1.1, "high": 1.5, "level": 0.95, "rounds": 3, "why": None}
NO_RATIO = {"estimate": None, "low": None, "high": None, "why": "no round"}


def point(arm, concurrency, **changes):
    made = {
        "arm": arm,
        "concurrency": concurrency,
        "output_tokens_per_s": 30.0 * concurrency,
        "tpot_s": {"n": 4, "pooled": 0.03, "p50": 0.0312, "p95": 0.04},
        "mean_acceptance_length": {"n": 4, "pooled": 3.25},
    }
    if arm not in PLAIN.values():
        made["throughput_over_plain"] = RATIO
    return made | changes


REPORT = {
    "ended_at": "2026-01-02T03:04:05+00:00",
    "machine": {"hardware": {"cpu": "A processor", "cores": 2}},
    "target": "pypi:a-model",
    "spec": {"rounds": 3, "max_tokens": 64, "level": 0.95},
    "engines": {"vllm-plain": {"engine": "vllm", "version": "0.32.0"}},
    "failures": [],
    "points": [point(arm, load) for arm in SHOWN for load in (1, 4, 16)],
    "plain_over_ours": [
        {"engine": "vLLM", "concurrency": 4, "throughput": RATIO, "tpot": NO_RATIO}
    ],
}


def test_every_arm_belongs_to_an_engine_that_has_a_plain_arm():
    assert {engine_of(arm) for arm in SHOWN} == set(PLAIN)
    assert set(PLAIN.values()) <= set(SHOWN)


def test_the_table_has_a_line_for_every_arm_and_load():
    lines = tables(REPORT).splitlines()

    assert sum(line.startswith("| specdecode | plain |") for line in lines) == 3
    assert (
        "| vLLM | prompt lookup | 4 | 120.0 | 31.2 | 40.0 | 3.25 | 1.31 (1.10 to 1.50) |" in lines
    )
    assert "| vLLM | 4 | 1.31 (1.10 to 1.50) | no round |" in lines
    assert "vLLM 0.32.0, llama.cpp unknown" in lines[0]


def test_an_arm_without_numbers_and_its_reason_are_shown():
    report = copy.deepcopy(REPORT)
    lost = {"output_tokens_per_s": None, "tpot_s": {"n": 0, "pooled": None}}
    lost |= {"mean_acceptance_length": {"n": 0, "pooled": None}, "throughput_over_plain": NO_RATIO}
    report["points"] = [point("vllm-ngram", 4, **lost)]
    report["failures"] = [{"arm": "vllm-ngram", "reason": "the server ended with 1"}]

    text = tables(report)

    assert "| vLLM | prompt lookup | 4 | – | – | – | – | no round |" in text
    assert "**vllm-ngram** failed: the server ended with 1" in text


def test_one_round_has_no_interval():
    assert ratio(RATIO | {"low": None, "high": None, "why": "one round: no interval"}) == (
        "1.31 (one round: no interval)"
    )


def test_the_table_takes_its_place_and_leaves_the_rest(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{BEGIN}\nold\n{END}\nReasons\n")

    write_page(page, REPORT)
    write_page(page, REPORT)

    text = page.read_text()
    assert text.startswith(f"# Title\n{BEGIN}\nA processor")
    assert text.endswith(f"{END}\nReasons\n")
    assert "old" not in text
    assert text.count("| engine |") == 1


def test_a_page_without_a_place_for_it_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n")

    with pytest.raises(ConfigError, match="measured: begin"):
        write_page(page, REPORT)

    assert page.read_text() == "# Title\n"


def test_the_picture_is_drawn_also_where_arms_are_missing(tmp_path):
    report = copy.deepcopy(REPORT)
    report["points"] = [p for p in report["points"] if p["arm"] != "vllm-plain"]

    draw(report, tmp_path / "a" / "picture.png")

    assert (tmp_path / "a" / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "vllm with the locked versions is not installed"),
        (["--concurrency", "1,x"], "--concurrency 1,x: write whole numbers"),
        (["--rounds", "0"], "sweep: rounds:"),
    ],
)
def test_what_the_caller_can_fix_is_one_line(words, says, monkeypatch, tmp_path, capsys):
    def measure(*_):
        environment("vllm", tmp_path)

    monkeypatch.setattr(program, "measure", measure)

    assert program.main(["--out", str(tmp_path / "rows"), *words]) == 2
    assert says in capsys.readouterr().err
