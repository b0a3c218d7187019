"""`specdecode serve` as a process: it says where it listens, and stops in good order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from specdecode.errors import ConfigError
from specdecode.serving.settings import ServerSettings
from tests.serving.servers import eventually
from tests.tiny_models import write_tiny_model


@pytest.fixture
def started(tmp_path):
    write_tiny_model(tmp_path / "tiny")
    arguments = ["--target", tmp_path / "tiny", "--draft", "self-int8", "--port", "0", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "specdecode", "serve", *arguments, "--slots", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPECDECODE_API_KEY": "key"},
    )
    document = ""
    while "}" not in document:
        document += (line := process.stdout.readline())
        assert line, process.stderr.read()
    yield process, json.loads(document)
    if process.poll() is None:
        process.kill()
    process.communicate()


def ask(url, **more):
    body = {"prompt": "the cat sat", "ignore_eos": True, **more}
    headers = {"Authorization": "Bearer key"}
    return httpx.post(url + "/v1/completions", json=body, headers=headers, timeout=60)


def test_it_answers_and_finishes_what_it_accepted(started):
    process, told = started
    assert told["model"] == "tiny"
    assert ask(told["url"], max_tokens=5).json()["usage"]["completion_tokens"] == 5
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(ask, told["url"], max_tokens=240)
        metrics = told["url"] + "/metrics"
        eventually(
            lambda: (
                'num_requests_running{engine="0",model_name="tiny"} 1' in httpx.get(metrics).text
            )
        )
        process.send_signal(signal.SIGTERM)

        assert last.result().json()["usage"]["completion_tokens"] == 240
    assert process.wait(30) == 0


def test_a_port_that_is_taken_is_said(started, tmp_path):
    _, told = started
    port = told["url"].rsplit(":", 1)[1]
    arguments = ["--target", tmp_path / "tiny", "--draft", "none", "--port", port]
    second = subprocess.run(
        [sys.executable, "-m", "specdecode", "serve", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert second.returncode == 2
    assert f"Error: cannot listen on 127.0.0.1, port {port}" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_port_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="port=99999: give at most 65535"):
        ServerSettings("m", port=99999)


def test_a_second_signal_cuts_replies_off(started):
    process, told = started
    body = {"prompt": "the cat sat", "ignore_eos": True, "max_tokens": 4000, "n": 16}
    headers = {"Authorization": "Bearer key"}
    url = told["url"] + "/v1/completions"
    with httpx.stream(
        "POST", url, json={**body, "stream": True}, headers=headers, timeout=60
    ) as stream:
        pieces = stream.iter_raw()
        next(pieces)
        process.send_signal(signal.SIGTERM)
        assert "SIGTERM: finishing" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)

        rest = b""
        with contextlib.suppress(httpx.TransportError):
            for piece in pieces:
                rest += piece
        assert b"[DONE]" not in rest
    assert process.wait(30) == 0
