"""`specdecode serve` as a process: it says where it listens, and stops in good order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from specdecode.errors import ConfigError
from specdecode.serving.settings import ServerSettings
from specdecode.workload.engines.metrics_text import parse_metrics
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
    return httpx.post(url + "/v1/completions", json=body, headers=headers, timeout=120)


def test_it_answers_and_finishes_what_it_accepted(started):
    process, told = started
    assert told["model"] == "tiny"
    assert ask(told["url"], max_tokens=5).json()["usage"]["completion_tokens"] == 5
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(ask, told["url"], max_tokens=240)
        eventually(lambda: tokens_written(told["url"]) > 5, 60)  # so it was accepted
        process.send_signal(signal.SIGTERM)

        assert last.result().json()["usage"]["completion_tokens"] == 240
    assert process.wait(120) == 0


def tokens_written(url):
    """So far: unlike the number of replies that run, it never goes back while nobody looks."""
    text = httpx.get(url + "/metrics", timeout=60).text
    return sum(parse_metrics(text).series["vllm:generation_tokens_total"].values())


def serve(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "specdecode", "serve", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_port_that_is_taken_is_said_before_a_model_is_loaded(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        second = serve("--target", str(tmp_path / "no-model"), "--port", port)

    assert second.returncode == 2
    assert f"Error: cannot listen on 127.0.0.1, port {port}: Address already in use" in (
        second.stderr
    )
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--deadline", "-1", "'--deadline': Input should be greater than or equal to 0"),
        ("--deadline", "nan", "'--deadline': Input should be greater than or equal to 0"),
        ("--deadline", "inf", "deadline_s=inf: give a number above 0"),
        ("--slots", "0", "'--slots': Input should be greater than or equal to 1"),
        ("--queue", "-5", "'--queue': Input should be greater than or equal to 1"),
        ("--prefill-chunk", "0", "'--prefill-chunk': Input should be greater than or equal to 1"),
        ("--max-tokens", "0", "'--max-tokens': Input should be greater than or equal to 1"),
        (
            "--max-prompt-tokens",
            "0",
            "'--max-prompt-tokens': Input should be greater than or equal to 1",
        ),
        ("--max-body-bytes", "0", "'--max-body-bytes': Input should be greater than or equal to 1"),
        ("--port", "70000", "'--port': Input should be less than or equal to 65535"),
    ],
)
def test_numbers_that_cannot_be_are_refused(specdecode, option, value, said):
    result = specdecode("serve", "--target", "nowhere", option, value, "--json")

    assert result.code == 2
    assert said in result.document["error"]["message"]
    assert "Traceback" not in result.err


def test_a_port_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="port=99999: give at most 65535"):
        ServerSettings("m", port=99999)


def test_a_second_signal_cuts_replies_off(started):
    process, told = started
    body = {"prompt": "the cat sat", "ignore_eos": True, "max_tokens": 4000, "n": 16}
    headers = {"Authorization": "Bearer key"}
    url = told["url"] + "/v1/completions"
    with httpx.stream(
        "POST", url, json={**body, "stream": True}, headers=headers, timeout=120
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
    assert process.wait(120) == 0
