"""Sweeps of real processes: whole ones, broken ones, and interrupted ones that are resumed."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
from rich.console import Console

from specdecode.cli.sweep_show import show_result
from specdecode.errors import ConfigError, UserError
from specdecode.measurement.records import read_records
from specdecode.workload.server_process import ServerCommand, ServerProcess
from specdecode.workload.sweep import Arm, SweepSpec, read_plan, run_sweep
from specdecode.workload.sweep import run as run_module
from tests.workload.sweep.conftest import ROOT


def keys(result):
    return [(c["arm"], c["round"], c["concurrency"]) for c in result.document["cells"]]


def shown(result):
    """What people are told of it."""
    stream = io.StringIO()
    show_result(result, Console(file=stream, width=200))
    return stream.getvalue()


def failures(result):
    return {f["arm"]: f["reason"] for f in result.document["failures"]}


def test_every_arm_is_measured_at_every_load_in_every_round(spec, arms, tmp_path, left_behind):
    result = run_sweep(spec, arms, tmp_path / "s")

    assert result.status == "complete"
    assert sorted(keys(result)) == sorted(
        (arm, number, load) for arm in ("plain", "k2") for number in (1, 2) for load in (1, 3)
    )
    for cell in result.document["cells"]:
        assert cell["output_tokens"] == 8 * cell["requests"] == 8 * 2 * cell["concurrency"]
        assert cell["mean_acceptance_length"] == (None if cell["arm"] == "plain" else 8 / 3)
        assert cell["server_rss_bytes_max"] > 0
    assert json.loads((tmp_path / "s" / "sweep.json").read_text()) == result.document
    with (tmp_path / "s" / "cells.csv").open() as table:
        assert len(list(csv.DictReader(table))) == 8
    assert not left_behind()


def test_all_arms_send_the_same_prompts_and_no_load_or_round_repeats_them(spec, arms, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"question_id": f"q{n}", "category": "c", "turns": [f"Say {n}."]} for n in range(20)]
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = {**spec.model_dump(), "input_tokens": None, "prompts": prompts}
    result = run_sweep(SweepSpec(**asked), arms, tmp_path / "s")

    def sent(cell):
        return [r.prompt_id for r in read_records(tmp_path / "s" / cell["folder"] / "rows.parquet")]

    by_cell = {}
    for cell in result.document["cells"]:
        by_cell.setdefault((cell["round"], cell["concurrency"]), []).append(sorted(sent(cell)))
    assert all(one == other for one, other in by_cell.values())
    in_round = [name for (number, _), both in by_cell.items() if number == 1 for name in both[0]]
    assert len(set(in_round)) == len(in_round) == 8
    assert not result.document["prompts_salted"]


def test_more_requests_than_prompts_are_salted(spec, arms, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"question_id": "q", "category": "c", "turns": ["Say it."]}\n')
    asked = {**spec.model_dump(), "input_tokens": None, "prompts": prompts, "rounds": 1}
    result = run_sweep(SweepSpec(**asked), arms, tmp_path / "s")

    assert result.status == "complete"
    assert result.document["prompts_salted"]


def test_drafting_pays_at_a_low_load_and_not_at_a_high_one(server, tmp_path):
    spec = SweepSpec(concurrency=(1, 16), rounds=2, input_tokens=4, max_tokens=24, warm_up=0)
    arms = [Arm("plain", server(scale=5)), Arm("k8", server(8, scale=5), 8, None, "plain")]
    result = run_sweep(spec, arms, tmp_path / "s")

    ratios = {
        point["concurrency"]: point["throughput_over_plain"]["estimate"]
        for point in result.document["points"]
        if point["arm"] == "k8"
    }
    assert ratios[1] > 1 > ratios[16]  # 3 and 0.5 if nothing else ran here
    assert result.document["crossovers"][0]["estimate"]["between"] == [1, 16]


REASONS = {
    "start": "ended with 4.*there is no such model",
    "lossy": "typical_acceptance is 0.3",
    "dies": "was gone at concurrency.*the accelerator fell off the bus",
}


@pytest.mark.parametrize("fault", REASONS)
def test_an_arm_that_fails_is_told_and_the_others_go_on(spec, arms, server, tmp_path, fault):
    bad = Arm("bad", server(1, fault), 1, "token", "plain")
    result = run_sweep(spec, [*arms, bad], tmp_path / "s")

    assert result.status == "partial"
    assert list(failures(result)) == ["bad"]
    assert re.search(REASONS[fault], failures(result)["bad"], re.DOTALL)
    assert len([key for key in keys(result) if key[0] != "bad"]) == 8
    points = [p for p in result.document["points"] if p["arm"] == "bad"]
    assert [p["concurrency"] for p in points] == [1, 3]  # it is not left out
    found = next(c for c in result.document["crossovers"] if c["arm"] == "bad")
    assert found["pays_up_to"] is None
    assert all("bad" not in str(r["by_measured_load"]) for r in result.document["recommendations"])


def test_errors_in_a_cell_make_it_worth_nothing(spec, server, tmp_path):
    arms = [Arm("plain", server()), Arm("k2", server(2, "refuses"), 2, None, "plain")]
    result = run_sweep(spec, arms, tmp_path / "s")

    assert result.status == "partial"
    assert not failures(result)  # the server lives
    broken = [c for c in result.document["cells"] if c["errors"]]
    assert broken
    assert not any(c["whole"] for c in broken)


def test_the_wrong_key_is_a_reason_and_no_crash(spec, arms, tmp_path):
    gone = replace(arms[1], server="http://127.0.0.1:9")
    result = run_sweep(spec, [arms[0], gone], tmp_path / "s")

    assert result.status == "partial"
    assert "127.0.0.1:9" in failures(result)["k2"]


def test_running_servers_can_be_measured_and_stay_up(spec, server, tmp_path):
    with (
        ServerProcess(server(), tmp_path / "a.log") as plain,
        ServerProcess(server(2), tmp_path / "b.log") as fast,
    ):
        arms = [Arm("plain", plain.url), Arm("k2", fast.url, 2, None, "plain")]
        result = run_sweep(spec, arms, tmp_path / "s")
        assert result.status == "complete"
        assert psutil.pid_exists(fast.pid)


def test_together_all_arms_take_turns_at_each_load(spec, arms, tmp_path, left_behind):
    asked = SweepSpec(**{**spec.model_dump(), "together": True})
    result = run_sweep(asked, arms, tmp_path / "s")

    assert result.status == "complete"
    cells = sorted(result.document["cells"], key=lambda cell: cell["started_at"])
    loads = [(cell["round"], cell["concurrency"]) for cell in cells]
    assert all(a == b for a, b in zip(loads[::2], loads[1::2], strict=True))
    assert len(list((tmp_path / "s" / "logs").iterdir())) == 2  # each was started once
    assert not left_behind()


def interrupted_after(count, monkeypatch):
    """Ctrl-C while the cell after `count` cells is measured."""
    real, seen = run_module.run_load, []

    def run_load(*arguments, **more):
        seen.append(1)
        if len(seen) > count:
            (arguments[1] / "half").mkdir(parents=True)
            raise KeyboardInterrupt
        return real(*arguments, **more)

    monkeypatch.setattr(run_module, "run_load", run_load)


def test_an_interrupted_sweep_goes_on_where_it_stopped(
    spec, arms, tmp_path, monkeypatch, left_behind
):
    with monkeypatch.context() as patch:
        interrupted_after(3, patch)
        first = run_sweep(spec, arms, tmp_path / "s")
    assert first.status == "interrupted"
    assert len(first.document["cells"]) == 3
    assert not (tmp_path / "s" / "lengths.json").exists()
    assert not left_behind()

    plan = read_plan(tmp_path / "s")
    assert plan[0] == spec
    second = run_sweep(*plan, tmp_path / "s")
    assert second.status == "complete"
    assert all(cell in second.document["cells"] for cell in first.document["cells"])
    assert (tmp_path / "s" / "lengths.json").exists()
    aside = list((tmp_path / "s" / "cells").rglob("*.interrupted"))
    assert [(folder / "half").is_dir() for folder in aside] == [True]

    third = run_sweep(spec, arms, tmp_path / "s")  # nothing is left to do
    assert third.document["cells"] == second.document["cells"]


def test_an_arm_that_failed_is_tried_again_when_a_sweep_is_resumed(spec, server, tmp_path):
    script = tmp_path / "start.sh"
    script.write_text("echo no model yet; exit 3\n")
    late = ServerCommand(["sh", str(script), "{port}"], ready_s=240, stop_s=60)
    arms = [Arm("plain", server()), Arm("k2", late, 2, None, "plain")]
    first = run_sweep(spec, arms, tmp_path / "s")
    assert first.status == "partial"
    assert [f["healed"] for f in first.document["failures"]] == [False]
    assert "k2 failed: " in shown(first)

    command = " ".join(server(2).argv).replace("{port}", "$1")
    script.write_text(f"exec {command}\n")
    result = run_sweep(spec, arms, tmp_path / "s")

    assert result.status == "complete"
    assert "no model yet" in failures(result)["k2"]  # what happened stays on record
    assert [f["healed"] for f in result.document["failures"]] == [True]
    assert "k2 failed" not in shown(result)


def test_an_arm_is_not_measured_with_a_model_that_its_server_lacks(spec, server, tmp_path):
    arms = [Arm("plain", server()), Arm("k2", server(2), 2, None, "plain", model="another")]
    result = run_sweep(spec, arms, tmp_path / "s")

    assert result.status == "partial"
    assert "has no model 'another'; it lists " in failures(result)["k2"]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec, arms: (SweepSpec(**{**spec.model_dump(), "seed": 1}), arms),
        lambda spec, arms: (spec, [arms[0], replace(arms[1], rule="block")]),
    ],
)
def test_another_sweep_does_not_go_into_the_same_folder(spec, arms, tmp_path, monkeypatch, change):
    with monkeypatch.context() as patch:
        interrupted_after(0, patch)
        run_sweep(spec, arms, tmp_path / "s")
    with pytest.raises(UserError, match=r"holds another sweep: (spec|arms) differ"):
        run_sweep(*change(spec, arms), tmp_path / "s")


def test_a_folder_of_something_else_is_refused(spec, arms, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty and holds no sweep"):
        run_sweep(spec, arms, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_its_servers(server, tmp_path, number):
    program = (
        "import sys, pathlib; from specdecode.workload.sweep import *\n"
        "from specdecode.workload.server_process import ServerCommand\n"
        f"server = lambda k: ServerCommand({list(server().argv)!r} + ['--k', str(k)], stop_s=5)\n"
        "spec = SweepSpec(concurrency=(1,), rounds=500, input_tokens=4, max_tokens=8)\n"
        "arms = [Arm('plain', server(0)), Arm('k', server(1), 1, None, 'plain')]\n"
        f"print(run_sweep(spec, arms, pathlib.Path({str(tmp_path / 's')!r})).status)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 120
    while not list((tmp_path / "s").glob("cells/*/*/*/summary.json")):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, number)

    assert process.communicate(timeout=120)[0] == "interrupted\n"
    assert not any(child.is_running() for child in children)
    document = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert document["status"] == "interrupted"
    assert document["cells"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda a: [a[0], a[0]], "two arms are called plain"),
        (lambda a: [a[0]], "no arm drafts"),
        (lambda a: [a[1]], "there is no arm plain"),
        (lambda a: [*a, replace(a[1], name="k3", baseline="k2")], "a baseline decodes plainly"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused(spec, arms, tmp_path, make, says):
    with pytest.raises(ConfigError, match=says):
        run_sweep(spec, make(arms), tmp_path / "s")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "a/b"}, "folder's"),
        ({"draft_length": -1}, "below 0"),
        ({"baseline": None}, "name the plain arm"),
        ({"draft_length": 0}, "is a baseline and has none"),
    ],
)
def test_an_arm_says_what_is_wrong_with_it(arms, change, says):
    with pytest.raises(ConfigError, match=says):
        replace(arms[1], **change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"concurrency": (4, 1)}, "rising order"),
        ({"concurrency": ()}, "concurrency"),
        ({"concurrency": (1, 2000)}, "max_batch is 1024"),
        ({"rounds": 0}, "rounds"),
        ({"input_tokens": None}, "give prompts"),
        ({"slo": {"itl": 1.0}}, "unknown SLO"),
        ({"level": 0.4}, "level"),
    ],
)
def test_a_spec_says_what_is_wrong_with_it(spec, change, says):
    with pytest.raises(ConfigError, match=says):
        SweepSpec(**{**spec.model_dump(), **change})


def test_secrets_of_the_environment_are_not_recorded(spec, arms, tmp_path, monkeypatch):
    secret = replace(arms[0].server, env={"KEY": "s3cret", "GONE": ""})
    interrupted_after(0, monkeypatch)
    run_sweep(spec, [replace(arms[0], server=secret), arms[1]], tmp_path / "s")

    everything = "".join(p.read_text() for p in (tmp_path / "s").glob("*.json"))
    assert "s3cret" not in everything
    with pytest.raises(ConfigError, match="started with KEY, whose values"):
        read_plan(tmp_path / "s")
