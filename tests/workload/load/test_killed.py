"""kill -9 of the server and of the client: what was measured stays, the rest is counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from specdecode.errors import EvidenceError, UserError
from specdecode.measurement.records import read_records
from specdecode.workload.load import LoadSpec, recover, run_load
from specdecode.workload.load.faults import CONNECTION, INTERRUPTED
from specdecode.workload.load.journal import DETAILS, ROWS, SENT, SPOOL, SUMMARY, read_lines
from specdecode.workload.server_process import ServerCommand, ServerProcess
from tests.tiny_models import write_tiny_model

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def server_process():
    """(process, url) of a server that can be killed."""
    command = [sys.executable, "-m", "tests.workload.load.fake_server"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT
    ) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def wait_for(what, seconds=240.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def spec(url, **changes):
    values = {
        "url": url, "model": "toy", "arrivals": "constant", "rate": 40.0, "requests": 4000,
        "input_tokens": 8, "warm_up": 1, "give_up_after": 20,
        "extra_body": {"behaviour": {"chunks": 5, "gap_s": 0.05}},
    }  # fmt: skip
    return LoadSpec(**values | changes)


def test_a_server_killed_in_mid_load_leaves_partial_rows_and_a_clear_verdict(
    server_process, tmp_path
):
    process, url = server_process
    folder = tmp_path / "run"

    def kill():
        wait_for(lambda: lines(folder / SPOOL) > 10)
        process.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = run_load(spec(url), folder)
    killer.join()
    verdict = found.summary["verdict"]
    records = read_records(folder / ROWS)

    assert verdict["status"] == "partial"
    assert verdict["ok"] >= 10
    assert set(verdict["failed"]) <= CONNECTION | {INTERRUPTED}
    assert verdict["failed"]["refused"] > 0
    assert sum(verdict["failed"].values()) >= 20
    assert verdict["sent"] == verdict["ok"] + sum(verdict["failed"].values()) == len(records)
    assert verdict["unsent"] == 4000 - verdict["sent"] > 0
    assert "the server is gone" in verdict["line"]
    assert sum(r.error is None for r in records) == verdict["ok"]
    assert not (folder / SPOOL).exists()


def test_our_own_server_killed_in_mid_load_leaves_partial_rows_and_a_clear_verdict(tmp_path):
    model, folder = write_tiny_model(tmp_path / "tiny"), tmp_path / "run"
    serve = [sys.executable, "-m", "specdecode", "serve", "--target", str(model)]
    command = ServerCommand([*serve, "--draft", "self-int8", "--port", "{port}"], env=ENVIRONMENT)
    with ServerProcess(command, tmp_path / "log") as server:
        load = [
            sys.executable, "-m", "specdecode", "load", server.url, "--concurrency", "4",
            "--requests", "4000", "--input-tokens", "8", "--max-tokens", "100", "--ignore-eos",
            "--give-up-after", "20", "--token-ids", "--api", "completions", "--out", str(folder),
            "--json",
        ]  # fmt: skip
        with subprocess.Popen(load, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as client:
            wait_for(lambda: lines(folder / SPOOL) > 10)
            os.kill(server.pid, signal.SIGKILL)
            out, _ = client.communicate(timeout=240)
    verdict = json.loads(out)["verdict"]
    records = read_records(folder / ROWS)

    assert client.returncode == 1
    assert verdict["status"] == "partial"
    assert verdict["ok"] >= 10
    assert set(verdict["failed"]) <= CONNECTION | {INTERRUPTED}
    assert verdict["sent"] == verdict["ok"] + sum(verdict["failed"].values()) == len(records)
    assert verdict["sent"] + verdict["unsent"] == 4000
    assert verdict["line"].startswith(f"partial: {verdict['sent']} sent = {verdict['ok']} ok + ")
    assert "the server is gone" in verdict["line"]
    assert json.loads(out)["engine"]["could_not_be_asked"]
    assert all(r.output_token_ids and r.prompt_token_ids for r in records if r.error is None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_client_ends_with_its_rows(server_process, tmp_path, number):
    _, url = server_process
    folder = tmp_path / "run"
    with subprocess.Popen(
        client(url, folder), stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        wait_for(lambda: lines(folder / SPOOL) > 5)
        process.send_signal(number)
        out, _ = process.communicate(timeout=240)
    verdict = json.loads(out)["verdict"]

    assert process.returncode == 130
    assert verdict["stopped"] == "interrupted"
    assert set(verdict["failed"]) == {"interrupted"}
    (example, *_) = json.loads(out)["errors"]["interrupted"]["examples"]
    assert example == "interrupted: the run was ended: interrupted"
    assert len(read_records(folder / ROWS)) == verdict["sent"]


def test_a_killed_client_leaves_rows_and_every_request_is_accounted_for(server_process, tmp_path):
    _, url = server_process
    folder = tmp_path / "run"
    with subprocess.Popen(
        client(url, folder), stdout=subprocess.DEVNULL, env=ENVIRONMENT
    ) as process:
        wait_for(lambda: lines(folder / SPOOL) > 10)
        process.send_signal(signal.SIGKILL)
    sent = len(list(read_lines(folder / SENT)))
    whole = lines(folder / SPOOL) - 1

    found = recover(folder)
    verdict = found.summary["verdict"]

    assert verdict["status"] == "partial"
    assert verdict["stopped"] == "the load client was killed"
    assert verdict["ok"] == whole
    assert verdict["failed"] == {"client-killed": sent - whole}
    assert verdict["sent"] == sent == len(read_records(folder / ROWS))
    assert found.summary["saturation"]["client"]["state"] == "unknown"
    with pytest.raises(UserError, match="ended by itself"):
        recover(folder)


def client(url, folder):
    return [
        sys.executable, "-m", "specdecode", "load", url, "--rate", "40", "--requests", "4000",
        "--input-tokens", "8", "--warm-up", "1", "--out", str(folder), "--json",
        "--body", '{"behaviour": {"chunks": 5, "gap_s": 0.05}}',
    ]  # fmt: skip


def test_there_must_be_something_to_recover(tmp_path, load):
    with pytest.raises(UserError, match="holds no load run"):
        recover(tmp_path)
    found = load()
    (found.folder / SUMMARY).unlink()
    run = json.loads((found.folder / "run.json").read_text())
    run["manifest"]["spec"]["seed"] = 99
    (found.folder / "run.json").write_text(json.dumps(run))
    with pytest.raises(EvidenceError, match="not the one its hash names"):
        recover(found.folder)


def test_a_run_killed_before_its_summary_is_summed_up_again(load):
    found = load(slo={"ttft": 60.0})
    before = json.loads((found.folder / SUMMARY).read_text())
    (found.folder / SUMMARY).unlink()

    again = recover(found.folder).summary

    for name in ("latency", "gaps", "goodput", "tokens", "errors", "manifest_sha256"):
        if name != "goodput":
            assert again[name] == before[name]
    assert again["goodput"]["good"] == before["goodput"]["good"]


def test_details_that_were_cut_off_are_left_out(tmp_path):
    path = tmp_path / DETAILS
    path.write_text('{"a": 1}\n{"b": ')
    assert list(read_lines(path)) == [{"a": 1}]
    path.write_text('{"a": 1}\nbroken\n{"b": 2}\n')
    with pytest.raises(EvidenceError, match="line 2"):
        list(read_lines(path))
