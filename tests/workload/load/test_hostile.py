"""What servers, networks and machines do that no document promises. Each was a fault once."""

from __future__ import annotations

import gzip
import json
import os
import resource
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from specdecode.errors import ConfigError
from specdecode.measurement.records import read_records
from specdecode.workload.load import EngineSide, recover
from specdecode.workload.load.client import make_room
from specdecode.workload.load.faults import CLIENT_ERROR, MALFORMED, from_httpx
from specdecode.workload.load.journal import DETAILS, ROWS, SUMMARY, Journal, read_lines
from specdecode.workload.load.observation import Observation
from specdecode.workload.load.resources import Sampler
from tests.wire import engines as wire
from tests.wire.server import WireServer

GZIP_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
    b"Connection: close\r\n\r\n"
)


def rows(found):
    return read_records(found.folder / ROWS)


def test_a_connection_that_the_server_closed_while_it_was_idle_is_no_failure_of_the_server(
    load, fake
):
    fake.closes_when_asked_again = True
    found = load(requests=6, concurrency=2)

    assert found.complete
    assert len(fake.bodies) == 6
    assert found.summary["client"]["connections_closed_while_idle"] == 4
    assert sum(d["asked_again"] for d in read_lines(found.folder / DETAILS)) == 4


def test_a_new_connection_that_is_closed_without_an_answer_is_one(load, fake):
    found = load({"fault": "reset"}, requests=3)

    assert found.summary["verdict"]["failed"] == {"disconnected": 3}
    assert len(fake.bodies) == 3


def test_nothing_is_asked_again_once_a_byte_of_the_reply_was_there(load, fake):
    fake.fault_of = {1: "drop"}
    found = load(requests=3, concurrency=1)

    assert found.summary["verdict"]["failed"] == {"disconnected": 1}
    assert len(fake.bodies) == 3


def test_what_is_the_clients_own_fault_is_said_so_however_deep_it_lies():
    for reason in (OSError(24, "Too many open files"), OSError(99, "no free port"), ssl.SSLError()):
        try:
            try:
                try:
                    raise reason
                except OSError as error:
                    raise OSError("All connection attempts failed") from error
            except OSError as error:
                raise httpx.ConnectError("All connection attempts failed") from error
        except httpx.ConnectError as error:
            fault = from_httpx(error)
        assert fault.kind == CLIENT_ERROR
        assert str(reason) in fault.detail


def test_a_certificate_nobody_knows_is_not_called_a_server_that_does_not_listen(load, tls_server):
    found = load(url=tls_server, requests=2)
    assert found.summary["verdict"]["failed"] == {"client-error": 2}
    assert "CERTIFICATE_VERIFY_FAILED" in found.summary["errors"]["client-error"]["examples"][0]


@pytest.fixture
def tls_server(tmp_path):
    """A TLS server with a certificate of its own making."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    program = (
        "import http.server, ssl, sys\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0),"
        " http.server.SimpleHTTPRequestHandler)\n"
        "context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
        "context.load_cert_chain(sys.argv[1])\n"
        "server.socket = context.wrap_socket(server.socket, server_side=True)\n"
        "print(server.server_port, flush=True)\n"
        "server.serve_forever()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield f"https://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


def test_more_clients_than_files_may_be_open_are_refused_with_the_way_out(monkeypatch):
    limits = [64, 256]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.__setitem__(0, new[0]))

    make_room(150)
    assert limits == [256, 256]  # as many as this process may ask for
    with pytest.raises(ConfigError, match=r"1000 connections.*256 open files.*ulimit -n"):
        make_room(1000)


@pytest.mark.parametrize("tokens", [2**31, 2**70])
def test_impossible_counts_are_unknown_and_no_crash(load, tokens):
    usage = {"prompt_tokens": tokens, "completion_tokens": tokens}
    found = load({"says": {"usage": usage}})

    assert found.complete
    assert {row.output_tokens for row in rows(found)} == {None}


def test_impossible_token_ids_are_not_recorded_and_no_crash(load):
    found = load({"token_id": 2**31}, token_ids=True)

    assert found.complete
    assert {row.output_token_ids for row in rows(found)} == {None}


def test_half_a_character_in_a_message_or_a_reply_does_not_end_the_run(load):
    half = load({"text": r"\ud83d"}, keep_text=True, requests=2)
    message = load({"fault": "error-event", "message": r"bad \udc00"}, requests=2)

    assert half.complete
    assert {row.output_text for row in rows(half)} == {"\ufffd" * 4}
    assert message.summary["verdict"]["failed"] == {"stream-error": 2}
    assert "bad \ufffd" in rows(message)[0].error


def test_characters_that_were_cut_in_two_halves_are_joined(load):
    found = load(
        {"texts": {"0": r"\ud83d", "1": r"\ude00"}, "chunks": 2}, keep_text=True, requests=1
    )
    assert rows(found)[0].output_text == "\U0001f600"


def test_half_a_character_in_a_prompt_is_sent_as_it_is(load, fake, tmp_path):
    path = tmp_path / "talk.json"
    path.write_text(r'[{"conversations": [{"from": "human", "value": "cut \ud83d"}]}]')
    found = load(prompts=path, input_tokens=None, requests=1)

    assert found.complete
    assert fake.bodies[0]["messages"][0]["content"] == "cut \ud83d"


def test_numbers_that_are_none_in_what_a_server_says_of_itself(load):
    metrics = wire.VLLM.about["/metrics"] + '\nvllm:kv_cache_usage_perc{engine="9"} NaN\n'
    info = {"vllm_config": {"speculative_config": {}, "a": float("nan"), "b": [float("inf")]}}
    routes = wire.VLLM.routes(**{"/server_info?config_format=json": info, "/metrics": metrics})
    with WireServer(routes) as server:
        side = EngineSide.find(server.url, "auto", None)
        found = load(url=server.url, model="m", engine=side, requests=2)
    text = (found.folder / "run.json").read_text() + (found.folder / SUMMARY).read_text()

    assert found.complete
    json.loads(text.split("\n}\n")[0] + "\n}", parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "body",
    [b"not gzip at all", gzip.compress(b"data: {}\n\n", mtime=0)[:-9]],
    ids=["no gzip", "cut off"],
)
def test_a_reply_that_cannot_be_decompressed_is_the_servers_fault(load, body):
    with WireServer({wire.CHAT: [GZIP_HEAD + body]}) as server:
        found = load(url=server.url, requests=1)
    (kind,) = found.summary["verdict"]["failed"]
    assert kind in (MALFORMED, "no-done", "disconnected")


def test_compressed_streams_are_not_asked_for(load, fake):
    load(requests=1)
    assert fake.headers[0]["accept-encoding"] == "identity"


def test_a_reply_that_the_server_aborted_is_not_whole(load):
    found = load({"finish_reason": "abort"}, requests=2)
    assert found.summary["verdict"]["failed"] == {"stream-error": 2}


def test_text_that_comes_without_a_token_leaves_the_gaps_between_tokens_known():
    # Text that was held back comes with an event of its own, after the tokens it belongs to.
    seen = Observation(due=0.0, chunk_times=[1.0, 2.0, 2.5, 4.0], chunk_tokens=[1, 2, 0, 3])
    assert seen.token_gaps_s == [(0.5, 2), (pytest.approx(2 / 3), 3)]


def test_an_arm_may_have_any_letters(load, fake):
    found = load(arm="größe", requests=2)
    assert found.complete
    assert fake.headers[0]["x-request-id"].endswith("/gr%C3%B6%C3%9Fe")


def test_a_client_killed_while_it_wrote_its_summary_leaves_none(load, monkeypatch, tmp_path):
    rename = Path.replace

    def killed(self, target):
        if target.name == SUMMARY:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        load(requests=2)
    monkeypatch.undo()
    folder = tmp_path / "run0"

    assert not (folder / SUMMARY).exists()
    assert recover(folder).summary["verdict"]["ok"] == 2


def test_half_a_line_on_a_full_disk_ends_the_run_at_once(tmp_path, monkeypatch):
    run = {"manifest_sha256": "0" * 64}
    with Journal(tmp_path / "run", run) as journal:
        write = os.write
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
        with pytest.raises(OSError, match="only half"):
            journal.sent({"started_at": datetime.now(UTC)})
        monkeypatch.undo()


def test_a_process_of_somebody_else_is_not_measured_and_does_not_end_the_samples(monkeypatch):
    sampler = Sampler("http://127.0.0.1:1", psutil.Process().pid)

    def denied(_self):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "memory_info", denied)
    sampler._client = SimpleNamespace(
        cpu_percent=lambda: 0.0, memory_info=lambda: SimpleNamespace(rss=1)
    )
    assert sampler.sample()["server_rss_bytes"] is None
