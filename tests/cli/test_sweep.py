"""`specdecode sweep`: arms from options, what is shown, exit codes, and its files in force."""

from __future__ import annotations

import json
import sys

import httpx
import pytest

from specdecode.cli.sweep_options import numbers, other_arms, own_arms
from specdecode.cli.sweep_show import crossover_line, ratio_text, recommendation_lines
from specdecode.errors import ConfigError
from specdecode.workload.server_process import ServerCommand, ServerProcess
from specdecode.workload.sweep import run as run_module
from tests.workload.sweep.conftest import ROOT

COST = f"{sys.executable} -m tests.workload.sweep.cost_server --port {{port}} --scale 0.2"
SHORT = ("--concurrency", "1,3", "--rounds", 2, "--input-tokens", 4, "--max-tokens", 8)


@pytest.fixture
def sweep(specdecode, tmp_path, monkeypatch):
    """A sweep of cost servers."""
    monkeypatch.chdir(ROOT)

    def run(*more, plain=COST, speculative=COST + " --k {k}"):
        given = ("--plain", plain, "--speculative", speculative, "--lengths", "2,4")
        return specdecode("sweep", *given, *SHORT, "--out", tmp_path / "s", *more)

    return run


def test_a_complete_sweep_exits_with_0_and_says_so_last(sweep, tmp_path):
    done = sweep("--slo", "tpot=30", "--price-per-hour", 2)

    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "complete: 12 of 12 cells whole"
    assert "USD / 1M tokens" in done.out
    assert "recommended draft length by concurrency: " in done.out
    assert f"--draft-lengths {tmp_path / 's' / 'lengths.json'}" in done.out
    assert "\x1b" not in done.out + done.err
    document = json.loads((tmp_path / "s" / "sweep.json").read_text())
    point = document["points"][0]
    assert point["good_requests"] == 4
    assert point["cost_per_request_within_slo"] > 0
    assert [p["concurrency"] for p in document["points"] if p["arm"] == "k4"] == [1, 3]


def test_json_is_one_document_with_its_files(sweep):
    document = sweep("--json").document

    assert document["status"] == "complete"
    assert document["schema"] == "specdecode.sweep/1"
    assert {path.rsplit("/", 1)[-1] for path in document["files"]} >= {
        "sweep.json",
        "cells.csv",
        "lengths.json",
    }
    energies = [cell["joules"] for cell in document["cells"]]
    assert all(energy is None or energy > 0 for energy in energies)


def test_a_partial_sweep_exits_with_1_and_names_the_arm(sweep, tmp_path):
    done = sweep(speculative=COST + " --k {k} --fault start")

    assert done.code == 1
    assert "k2 failed" in done.out
    assert "k2 failed in round 1" in done.err
    assert done.err.startswith(f"sweep: begins, 3 arms, 2 rounds, results in {tmp_path / 's'}\n")
    assert "sweep: over, 4 of 12 cells; round 2, plain: concurrency" in done.err
    assert "failed: k2, k4" in done.err or "failed: k4, k2" in done.err
    assert done.out.splitlines()[-1] == "partial: 4 of 12 cells whole, 8 not measured"
    assert "k2: not measured at 1, 3" in done.out
    assert "recommended" not in done.out, "nothing was compared"
    assert "lengths.json" not in done.out


def test_an_interrupted_sweep_exits_with_130_and_is_resumed(
    sweep, specdecode, tmp_path, monkeypatch
):
    real, seen = run_module.run_load, []

    def run_load(*arguments, **more):
        seen.append(1)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return real(*arguments, **more)

    monkeypatch.setattr(run_module, "run_load", run_load)
    first = sweep()
    assert first.code == 130
    assert first.out.splitlines()[-1] == "interrupted: 3 of 12 cells whole, 9 not measured"
    assert f"--resume {tmp_path / 's'}" in first.err

    second = specdecode("sweep", "--resume", tmp_path / "s")
    assert second.code == 0
    assert second.out.splitlines()[-1] == "complete: 12 of 12 cells whole"
    assert len(seen) == 4 + 9


def test_there_is_nothing_to_resume_in_an_empty_folder(specdecode, tmp_path):
    done = specdecode("sweep", "--resume", tmp_path)
    assert done.code == 2
    assert "holds no sweep" in done.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--concurrency", "1,x"), "--concurrency 1,x: write whole numbers"),
        (("--lengths", "0"), "--lengths 0: write whole numbers"),
        (("--rounds", 0), "rounds"),
        (("--slo", "itl=1"), "unknown SLO"),
        (("--api", "grpc"), "--api is one of"),
        (("--prompts", "missing.jsonl"), "give prompts, or the length of synthetic ones"),
    ],
)
def test_wrong_options_exit_with_2_before_a_server_is_started(sweep, tmp_path, options, says):
    done = sweep(*options)
    assert done.code == 2
    assert says in done.err
    assert not (tmp_path / "s" / "logs").exists()


def test_numbers_are_sorted_and_each_is_there_once():
    assert numbers("--lengths", "8, 2,4,2") == (2, 4, 8)


def arms_of(plain, speculative, lengths=(2, 4)):
    return other_arms(
        plain=plain,
        speculative=speculative,
        lengths=lengths,
        engine="vllm",
        model="m",
        ready_s=9,
        ready_path="/ready",
    )


def test_commands_of_other_servers_are_split_into_words_without_a_shell():
    plain, k2, k4 = arms_of("serve 'a b' --port {port}", "serve --port {port} -c '{\"n\":{k}}' $X")

    assert plain.server.argv == ["serve", "a b", "--port", "{port}"]
    assert k2.server.argv == ["serve", "--port", "{port}", "-c", '{"n":2}', "$X"]
    assert (k4.draft_length, k4.baseline, k4.engine, k4.model) == (4, "plain", "vllm", "m")
    assert (k4.server.ready_s, k4.server.ready_path) == (9, "/ready")


@pytest.mark.parametrize(
    ("plain", "speculative", "says"),
    [
        ("serve", "serve {port} {k}", "put {port}"),
        ("serve {port}", "serve {port}", "put {k} there"),
        ("serve {port} 'x", "serve {port} {k}", "cannot be split"),
        ("", "serve {port} {k}", "is empty"),
    ],
)
def test_commands_that_lack_a_place_are_refused(plain, speculative, says):
    with pytest.raises(ConfigError, match=says):
        arms_of(plain, speculative)


def test_one_command_alone_is_refused(sweep, specdecode):
    done = specdecode("sweep", "--plain", COST, *SHORT)
    assert done.code == 2
    assert "both --plain and --speculative" in done.err


def test_arms_of_our_server_are_lengths_by_rules_without_the_guard():
    arms = own_arms(
        target="t",
        draft="d",
        lengths=(2, 4),
        rules=("token", "block"),
        slots=16,
        options=("--dtype=float32",),
        ready_s=9,
    )
    assert [arm.name for arm in arms] == ["plain", "token-k2", "token-k4", "block-k2", "block-k4"]
    text = [" ".join(arm.server.argv) for arm in arms]
    assert "--draft none" in text[0]
    assert "--verification token --no-guard --num-speculative-tokens 4" in text[2]
    assert all("--slots 16" in each and each.endswith("--dtype=float32") for each in text)


@pytest.mark.parametrize("rule", ["greedy-block", "lossy"])
def test_rules_that_cannot_serve_are_refused(rule):
    with pytest.raises(ConfigError, match="verifies by one of token, block, match"):
        own_arms(target="t", draft="d", lengths=(2,), rules=(rule,), slots=1, options=(), ready_s=1)


def test_ratios_without_an_interval_say_why():
    ratio = {"estimate": 1.5, "low": None, "high": None, "why": "one round: no interval"}
    assert ratio_text(ratio) == "1.500 (one round: no interval)"
    assert ratio_text({**ratio, "estimate": None}) == "not measured"
    assert ratio_text({**ratio, "low": 1.2, "high": 1.8}) == "1.500 [1.200, 1.800]"


def test_a_crossover_is_told_with_what_is_not_known():
    line = crossover_line(
        {
            "arm": "k4",
            "states": {"1": "pays", "4": "does not pay", "16": "pays", "64": "not measured"},
            "pays_up_to": 1,
            "does_not_pay_from": None,
            "undecided": [],
            "not_measured": [64],
            "monotone": False,
            "estimate": {"concurrency": 2.5, "low": None, "high": None},
        }
    )
    assert line == (
        "k4: pays up to concurrency 1; not measured at 64; not monotone (1: pays, 4: does not pay, "
        "16: pays, 64: not measured); estimated crossover 2.5, interpolated"
    )


def test_the_command_that_is_recommended_serves_the_models_that_were_measured(tmp_path):
    arms = own_arms(
        target="/m/a target",
        draft="self-int8",
        lengths=[2],
        rules=["token"],
        slots=2,
        options=[],
        ready_s=9.0,
    )
    found = {
        "baseline": "plain",
        "rule": "token",
        "by_measured_load": [{"concurrency": 1, "num_speculative_tokens": 2}],
        "measured_up_to": 1,
        "error_at_most": 0.025,
        "files": {"lengths": "lengths.json"},
    }

    lines = recommendation_lines(found, tmp_path, [arm.to_json() for arm in arms])

    assert (
        "for our server: specdecode serve --target '/m/a target' --draft self-int8 "
        f"--verification token --draft-lengths {tmp_path}/lengths.json"
    ) in lines


def test_what_is_recommended_is_in_force_in_a_server_that_reads_it(
    specdecode, tiny_target, tmp_path
):
    """Our own server end to end: measured, recommended, written, read, in force."""
    options = ("--serve-option=--dtype=float32", "--serve-option=--device=cpu")
    done = specdecode(
        *("sweep", "--target", tiny_target, "--draft", "self-int8", "--rules", "token"),
        *("--lengths", 2, "--concurrency", "1,2", "--rounds", 1, "--max-tokens", 8, *options),
        *("--api", "completions", "--input-tokens", 4, "--out", tmp_path / "s", "--json"),
    )
    assert done.code == 0, done.err
    document = done.document
    drafted = [cell["acceptance_rate"] for cell in document["cells"] if cell["arm"] != "plain"]
    assert all(rate is not None for rate in drafted)
    # One round recommends nothing; what is in force is a list of the same shape.
    written = tmp_path / "s" / document["recommendations"][0]["files"]["lengths"]
    assert json.loads(written.read_text()) == [[1, 1024, 0]]
    written.write_text("[[1, 1, 2], [2, 1024, 0]]")
    arguments = ("--target", str(tiny_target), "--draft", "self-int8", "--port", "{port}")
    command = ServerCommand(
        [sys.executable, "-m", "specdecode", "serve", *arguments, "--draft-lengths", str(written)]
    )
    with ServerProcess(command, tmp_path / "log") as server:
        told = httpx.get(server.url + "/server_info", timeout=60).json()
        assert told["draft_lengths"] == [[1, 1, 2], [2, 1024, 0]]
        assert told["num_speculative_tokens"] == 2
        body = {"prompt": "the house is", "max_tokens": 9, "ignore_eos": True}
        reply = httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()
        assert reply["metrics"]["speculative_decoding"]["num_spec_tokens"] == 2
