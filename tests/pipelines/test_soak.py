"""Soaks of a tiny server: a sound one passes, and one that leaks, ends early or fails does not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from pipelines.soak.rule import Rule
from pipelines.soak.soak import PICTURE, PLAN, REPORT, SAMPLES, Plan, run_soak
from specdecode.errors import ConfigError, EngineError
from tests.tiny_models import write_tiny_model

# One minute can see only leaks that are far larger than those of the default rule.
COARSE = Rule(mb_per_hour=20_000, step_mb=60)
LEAKING = (sys.executable, "-m", "tests.pipelines.leaking_server")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(write_tiny_model(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch):
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # Twelve blocks of a minute are four seconds each, and a busy machine may stall for longer: the
    # block it happens in has too few samples. Of four blocks each is long enough to bear it.
    monkeypatch.setattr("pipelines.soak.rule.BLOCKS", 4)


def plan(tiny, **changes):
    values = {"minutes": 1.0, "concurrency": 4, "every_s": 0.5, "rule": COARSE}
    return Plan(tiny, "self-int8", **values | changes)


def checks(report):
    return {check["name"]: check["passed"] for check in report["checks"]}


@pytest.mark.slow
def test_a_sound_server_passes(tiny, tmp_path):
    report = run_soak(plan(tiny), tmp_path)

    assert report["passed"], report["line"]
    assert report["line"].startswith("soak passed: memory flat over 1 min")
    assert set(checks(report)) == {
        *("samples", "progress", "slope", "step"),
        *("threads", "files", "load", "clients", "server"),
    }
    assert json.loads((tmp_path / REPORT).read_text()) == report
    assert json.loads((tmp_path / PLAN).read_text())["plan"]["rule"]["mb_per_hour"] == 20_000
    samples = [json.loads(line) for line in (tmp_path / SAMPLES).read_text().splitlines()]
    assert len(samples) == report["samples"]["count"]
    assert all(0 < s["uss_bytes"] <= s["rss_bytes"] for s in samples)
    assert (tmp_path / PICTURE).read_bytes().startswith(b"\x89PNG")
    assert len(report["clients"]["played"]) == 10
    assert report["load"]["verdict"]["ok"] > 0
    with pytest.raises(ConfigError, match="not empty"):
        run_soak(plan(tiny), tmp_path)


@pytest.mark.slow
def test_a_server_that_leaks_is_caught(tiny, tmp_path):
    report = run_soak(plan(tiny), tmp_path, program=LEAKING)
    found = checks(report)

    assert not report["passed"]
    assert found["slope"] is False
    assert report["slope_mb_per_hour"][0] > COARSE.mb_per_hour
    assert {name for name, passed in found.items() if not passed} <= {"slope", "step"}
    assert report["line"].startswith("soak failed: slope: +")


@pytest.mark.slow
def test_a_server_that_ends_early_is_no_success(tiny, tmp_path):
    before = {child.pid for child in psutil.Process().children()}
    over = threading.Event()

    def kill():
        while not (tmp_path / SAMPLES).exists() and not over.wait(0.05):
            pass
        time.sleep(2)
        for child in psutil.Process().children():
            if child.pid not in before and "serve" in child.cmdline():
                child.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        report = run_soak(plan(tiny, minutes=0.5), tmp_path)
    finally:
        over.set()
        killer.join()
    found = checks(report)

    assert not report["passed"]
    assert report["slope_mb_per_hour"] is None
    failed = {name for name, passed in found.items() if not passed}
    assert failed >= {"samples", "threads", "files", "load", "server"}
    assert (tmp_path / PICTURE).exists()


def test_a_server_that_does_not_start_is_told_with_its_log(tmp_path):
    with pytest.raises(EngineError, match=r"(?s)ended with 2; its log .* ends: .*nowhere"):
        run_soak(Plan(str(tmp_path / "nowhere"), "none"), tmp_path / "out")


def test_the_command_says_so_in_one_line(tmp_path):
    command = [sys.executable, "-m", "pipelines.soak", "--target", "nowhere", "--out"]
    done = subprocess.run(
        [*command, str(tmp_path / "out")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "soak failed: the server ended with 2" in done.stderr
    assert "Traceback" not in done.stderr
