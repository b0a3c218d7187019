"""`specdecode route` as a process: it says where it listens, survives its end, and is judged."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from specdecode.governance.plan import canonical_json
from specdecode.rollout.spool_reader import read_spool
from tests.governance.live.streams import SHADOW, live_plan
from tests.rollout.routers import CHAT_PATH, MANIFEST, eventually
from tests.rollout.scripts import gated, replying, routes
from tests.wire.engines import VLLM
from tests.wire.replies import error_reply, events
from tests.wire.server import WireServer

TOKEN = "of-the-test"  # noqa: S105 - of this test
STAGE = SHADOW | {"metrics": ["error_rate", "e2e_s"], "n_min": 20, "n_max": 200}
CANARY = STAGE | {"name": "canary", "steps": [0.5]}


class Process:
    """`specdecode route` with what tests do to it."""

    def __init__(self, folder, baseline, candidate, *more):
        token = folder / "token"
        token.write_text(TOKEN + "\n")
        arguments = ["--baseline", baseline, "--candidate", candidate, "--port", "0"]
        arguments += ["--state-dir", folder / "state", "--token-file", token, *more]
        self.folder = folder / "state"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "specdecode", "route", *map(str, arguments)],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        while not self.said.startswith("listening on "):
            self.said = self.process.stderr.readline()
            assert self.said, "it ended"
        self.url = self.said.removeprefix("listening on ").strip()
        self.client = httpx.Client(base_url=self.url, timeout=120)

    @property
    def told(self):
        return self.client.get("/rollout").json()

    def change(self, mode, share):
        document = {
            "expected_version": self.told["state"]["version"],
            "mode": mode,
            "share": share,
            "manifest_sha256": None if mode == "off" else MANIFEST,
            "changed_by": "a test",
            "reason": "it needs it",
        }
        headers = {"Authorization": f"Bearer {TOKEN}"}
        reply = self.client.put("/rollout", json=document, headers=headers)
        assert reply.status_code == 200, reply.text

    def has_recorded(self):
        return self.told["health"]["spool"]["recorded"] > 20

    def ask(self, number=0):
        body = {"messages": [{"role": "user", "content": f"hello {number}"}], "stream": True}
        headers = {"x-specdecode-user": f"user {number}"}
        return self.client.post(CHAT_PATH, json=body, headers=headers)

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.client.close()
        code = self.process.wait(120)
        _, self.errors = self.process.communicate()
        return code


@pytest.fixture
def start(tmp_path):
    with contextlib.ExitStack() as stack:

        def make(baseline, candidate, *more):
            found = Process(tmp_path, baseline, candidate, *more)
            stack.callback(found.end, signal.SIGKILL)
            return found

        yield make


def many(router, numbers):
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(router.ask, numbers))


def test_shadow_canary_full_and_off_and_what_decide_makes_of_it(start, specdecode, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(canonical_json(live_plan(STAGE, CANARY)))
    with (
        WireServer(routes(replying("same"))) as baseline,
        WireServer(routes(replying("same", **VLLM.extra))) as candidate,
    ):
        router = start(baseline.url, candidate.url)
        assert router.ask().headers["x-specdecode-arm"] == "plain"
        router.change("shadow", 1.0)
        assert {r.headers["x-specdecode-arm"] for r in many(router, range(60))} == {"plain"}
        router.change("canary", 0.5)
        arms = [r.headers["x-specdecode-arm"] for r in many(router, range(150))]
        assert 45 < arms.count("block") < 105
        assert [r.headers["x-specdecode-arm"] for r in many(router, range(150))] == arms
        router.change("full", 1.0)
        assert router.ask().headers["x-specdecode-arm"] == "block"
        router.change("off", 0.0)
        assert router.ask().headers["x-specdecode-arm"] == "plain"
        eventually(lambda: router.told["health"]["spool"]["recorded"] == 2 * 60 + 2 * 150 + 1)
        pairs = router.told["health"]["pairs"]
        while_it_runs = read_spool(router.folder / "spool")
        assert router.end() == 0

    spool = router.folder / "spool"
    assert while_it_runs.num_rows == read_spool(spool).num_rows == 421
    assert pairs["sampled"]["pairs"] == 60
    for stage in ("shadow", "canary"):
        done = specdecode("decide", "--plan", plan, "--rows", spool, "--stage", stage)
        assert "error_rate" in done.out
        assert "harm is shown" not in done.out
        assert done.code == 0, done.out


def test_a_candidate_that_fails_is_a_no_go_that_no_user_saw(start, specdecode, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(canonical_json(live_plan(STAGE, CANARY)))
    with (
        WireServer(routes(replying("same"))) as baseline,
        WireServer(routes(error_reply(500, "broken"))) as candidate,
    ):
        router = start(baseline.url, candidate.url, "--candidate-failures", "1000")
        router.change("canary", 0.5)
        assert {r.status_code for r in many(router, range(100))} == {200}
        router.end()
    done = specdecode("decide", "--plan", plan, "--rows", router.folder / "spool")

    assert done.code == 10, done.out


def test_what_was_begun_is_finished_before_it_ends(start):
    gate = threading.Event()
    pieces = events(VLLM.chunks())
    with (
        WireServer(routes(gated(pieces, gate))) as baseline,
        WireServer(routes()) as candidate,
        ThreadPoolExecutor(1) as pool,
    ):
        router = start(baseline.url, candidate.url)
        last = pool.submit(router.ask)
        eventually(lambda: baseline.asked(CHAT_PATH))
        router.process.send_signal(signal.SIGTERM)
        eventually(lambda: _refuses(router.url))
        gate.set()

        assert last.result().content == b"".join(pieces)
        assert router.process.wait(120) == 0  # by itself; it has been told
        router.end()
    assert "Traceback" not in router.errors


def test_a_second_signal_cuts_it_off(start):
    gate = threading.Event()
    with (
        WireServer(routes(gated(events(VLLM.chunks()), gate))) as baseline,
        WireServer(routes(gated(events(VLLM.chunks()), gate))) as candidate,
        ThreadPoolExecutor(1) as pool,
    ):
        router = start(baseline.url, candidate.url)
        router.change("shadow", 1.0)
        last = pool.submit(router.ask)
        eventually(lambda: candidate.asked(CHAT_PATH))
        router.process.send_signal(signal.SIGTERM)
        eventually(lambda: _refuses(router.url))
        router.process.send_signal(signal.SIGTERM)

        assert router.process.wait(120) == 0
        with pytest.raises(httpx.TransportError):
            last.result()
        gate.set()
    assert "Traceback" not in router.process.stderr.read()
    assert read_spool(router.folder / "spool").num_rows == 0


@pytest.mark.slow
def test_kill_and_restart_lose_no_row_and_keep_the_state(start):
    chance = random.Random(1)  # noqa: S311 - moments of a test
    sent = 0
    with (
        WireServer(routes(replying("same"))) as baseline,
        WireServer(routes(replying("same"))) as candidate,
    ):
        router = start(baseline.url, candidate.url)
        router.change("canary", 0.5)
        state = router.told["state"]
        answered = 0
        for _ in range(4):
            stop = threading.Event()
            with ThreadPoolExecutor(5) as pool:
                counts = [pool.submit(_until_gone, router, stop, place) for place in range(4)]
                eventually(router.has_recorded)
                stop.wait(chance.uniform(0, 0.05))
                router.process.kill()
                done = [each.result() for each in counts]
            answered += sum(whole for whole, _ in done)
            sent += sum(whole + broken for whole, broken in done)
            router.end()
            router = start(baseline.url, candidate.url)
            assert router.told["state"] == state
        assert router.ask().status_code == 200
        router.end()

    rows = read_spool(router.folder / "spool")
    ids = rows.column("request_id").to_pylist()
    errors = [error for error in rows.column("error").to_pylist() if error is not None]
    assert len(ids) == len(set(ids))
    # What a client has got in full may at most lack its last line, never its first.
    assert answered + 1 <= rows.num_rows <= sent + 1
    assert all(error.startswith("router_stopped") for error in errors)
    assert len(errors) <= sent - answered + 16


def test_it_starts_without_torch():
    script = (
        "import sys, specdecode.rollout.run\n"
        "print([name for name in ('torch', 'transformers', 'starlette') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert done.stdout.strip() == b"[]"


class TestUsage:
    """Mistakes are told before anything is started."""

    BOTH = ("--baseline", "http://127.0.0.1:9", "--candidate", "http://127.0.0.1:9")

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--baseline", "here"], "write it as http://127.0.0.1:8000"),
            (["--baseline", "http://a@b:1"], "keys go into the environment"),
            (["--candidate-arm", "plain"], "both servers are called 'plain'"),
            (["--candidate-arm", "a/b"], "without '/'"),
            (["--candidate-rps", "0"], "rps=0.0: give more than 0"),
            (["--candidate-concurrency", "0"], "concurrency=0: give at least 1"),
            (["--shadow-when", "later"], "--shadow-when is one of now, idle"),
            (["--port", "70000"], "port=70000"),
            (["--idle-timeout", "-1"], "idle_s=-1.0"),
            (["--candidate-key-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE is not set"),
            (["--token-file", "/nowhere/token"], "openssl rand"),
        ],
        ids=lambda value: "-".join(value).strip("-") if isinstance(value, list) else "",
    )
    def test_it_says_what_is_wrong(self, specdecode, tmp_path, more, said):
        done = specdecode("route", "--state-dir", tmp_path / "state", *self.BOTH, *more)

        assert done.code == 2
        assert said in done.err
        assert not (tmp_path / "state").exists()

    def test_an_empty_token_is_none(self, specdecode, tmp_path):
        (tmp_path / "token").write_text("\n")
        done = specdecode(
            "route", "--state-dir", tmp_path / "state", *self.BOTH,
            "--token-file", tmp_path / "token",
        )  # fmt: skip

        assert done.code == 2
        assert "give one token" in done.err

    def test_a_port_that_is_taken(self, specdecode, tmp_path):
        with WireServer({}) as server:
            port = server.url.rsplit(":", 1)[1]
            done = specdecode("route", "--state-dir", tmp_path, *self.BOTH, "--port", port)

        assert done.code == 2
        assert f"cannot listen on 127.0.0.1, port {port}" in done.err


def test_one_json_document_says_where_it_listens(start):
    router = start("http://127.0.0.1:9", "http://127.0.0.1:9", "--json")
    router.process.send_signal(signal.SIGTERM)
    told = json.loads(router.process.stdout.read())

    assert told["url"] == router.url


def _until_gone(router, stop, place):
    """(replies that were whole, requests that were not) until nobody answers any more."""
    whole = 0
    while True:
        try:
            reply = router.ask(f"{place} {whole}")
        except httpx.TransportError:
            stop.set()
            return whole, 1
        whole += reply.content.endswith(b"[DONE]\n\n")


def _refuses(url):
    try:
        httpx.get(url + "/health", timeout=60)
    except httpx.TransportError:
        return True
    return False
