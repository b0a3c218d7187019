"""The measurement itself, over a proxy of the tests in place of the router and of LiteLLM."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pipelines.route_bench import __main__ as program
from pipelines.route_bench import arms, measure, servers
from pipelines.route_bench.arms import ARMS, ROUTED, set_router, url_of
from pipelines.route_bench.block import PATH, Ask, run_block, what_is_wrong
from pipelines.route_bench.measure import Plan, block_of, cpu_s
from pipelines.route_bench.page import BEGIN, END
from pipelines.route_bench.servers import Timing, upstream_command
from pipelines.route_bench.upstream import text_of
from specdecode.errors import EngineError
from specdecode.workload.server_process import PORT, ServerCommand, ServerProcess

SHORT = Timing(delay_ms=1.0, chunks=3, gap_ms=1.0)
TEXT = text_of(SHORT.chunks)


def pass_through(baseline, candidate, _folder):
    argv = [sys.executable, "-m", "tests.pipelines.pass_through", "--port", PORT]
    argv += ["--baseline", baseline, "--candidate", candidate, "--token", servers.TOKEN]
    return ServerCommand(argv)


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch):
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    root = Path(__file__).parents[2]
    command = upstream_command(SHORT)
    command = ServerCommand(command.argv, {"PYTHONPATH": str(root)})
    with ServerProcess(command, tmp_path_factory.mktemp("upstream") / "log") as process:
        yield process


@pytest.mark.parametrize("arm", ROUTED)
def test_the_real_router_is_started_set_and_measured(real, arm, monkeypatch):
    monkeypatch.setattr(measure, "_WARM_UP", 2)
    due = Plan(seconds=0.5).due(1, 40.0, "stream")

    found = block_of(
        ARMS[arm], replace(ask(url_of(ARMS[arm], real), "stream"), user=arm), due, real
    )

    assert found["errors"] == {}
    assert len(found["total_s"]) == len(due) > 0
    assert found["cpu_s"] > 0
    assert found["wall_s"] >= max(due)
    share = found["candidate_requests"] / len(due)
    assert share == ARMS[arm].share or (arm == "router-canary" and 0 < share < 1)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        with servers.running(tmp_path_factory.mktemp("real"), SHORT, litellm=False) as found:
            yield found


def children():
    return {process.pid for process in psutil.Process().children(recursive=True)}


def ask(url, kind="json", text=TEXT):
    return Ask(url=url, kind=kind, text=text, user="u")


@pytest.mark.slow
def test_a_whole_measurement_from_servers_to_page_and_back(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(servers, "router_command", pass_through)
    monkeypatch.setattr(servers, "litellm_command", lambda _, url, out: pass_through(url, url, out))
    monkeypatch.setattr(servers, "environment", lambda _: tmp_path)
    monkeypatch.setattr(program, "_locked", lambda _: "1.2.3")
    monkeypatch.setattr(measure, "_WARM_UP", 2)
    monkeypatch.setattr(arms, "_REST_S", 0.05)
    files = {name: tmp_path / name for name in ("report", "page", "picture", "out")}
    files["page"].write_text(f"{BEGIN}\n{END}\n")
    paths = [word for name, path in files.items() for word in (f"--{name}", str(path))]

    before = children()
    code = program.main(["--seconds", "0.4", "--rate", "60", "--rounds", "1", *paths])

    assert code == 1  # one short round shows nothing
    report = json.loads(files["report"].read_text())
    [only] = [json.loads(p.read_text()) for p in sorted(files["out"].glob("round-*.json"))]
    assert {(b["arm"], b["kind"]) for b in only["blocks"]} == {
        (arm, kind) for arm in ARMS for kind in ("json", "stream")
    }
    assert report["errors"] == {}
    by_arm = {p["arm"]: p for p in report["points"] if p["time"] == "total"}
    for name, point in by_arm.items():
        assert point["errors"] == 0 and point["replies"] > 0
        assert (point["cpu_ms_per_request"] is None) == name.startswith("direct")
        assert point["rate"] == 60
    assert by_arm["router-shadow"]["candidate_requests"] == by_arm["router-shadow"]["replies"]
    assert 0 < by_arm["router-canary"]["candidate_requests"] < by_arm["router-canary"]["replies"]
    for name in ("direct", "direct-again", "router-off", "litellm"):
        assert by_arm[name]["candidate_requests"] == 0
    assert "one round: no interval" in files["page"].read_text()
    assert children() <= before

    def nothing_is_started(*_args, **_options):
        raise AssertionError("it was measured already")

    monkeypatch.setattr(measure, "running", nothing_is_started)
    measured = report["points"]
    assert program.main(["--seconds", "0.4", "--rate", "60", "--rounds", "1", *paths]) == 1
    assert json.loads(files["report"].read_text())["points"] == measured
    assert (
        "Not met: router-off: median added under 1.5 ms at 60 requests a second."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("kind", ["json", "stream"])
def test_replies_are_timed_from_their_sending(upstream, kind):
    replies = asyncio.run(run_block(ask(upstream.url, kind), [0.0, 0.001, 0.01]))

    least = {"json": 0.001, "stream": 0.003}[kind]
    for reply in replies:
        assert reply.error is None
        assert reply.lag_s >= 0
        assert 0.001 <= reply.first_s <= reply.total_s
        assert reply.total_s >= least


def test_requests_do_not_wait_for_those_before_them():
    """Nobody is answered before all have arrived; one after the other they never would."""
    number = 20
    whole = {"choices": [{"message": {"content": TEXT}}]}

    async def scene():
        arrived, all_here = [], asyncio.Event()

        async def chat(request):
            arrived.append(request)
            if len(arrived) == number:
                all_here.set()
            await all_here.wait()
            return web.json_response(whole)

        app = web.Application()
        app.router.add_post(PATH, chat)
        async with TestServer(app) as server:
            url = str(server.make_url("")).rstrip("/")
            return await asyncio.wait_for(run_block(ask(url), [0.0] * number), 120)

    assert [reply.error for reply in asyncio.run(scene())] == [None] * number


def test_copies_that_a_router_still_holds_are_waited_for(monkeypatch):
    held, served = [3, 1, 0], [5]

    def answer(request):
        if request.url.host == "upstream":
            return httpx.Response(200, json={"json": served[0], "stream": 0})
        left = held.pop(0) if len(held) > 1 else held[0]
        if not left:
            served[0] = 8
        mirror = {"waiting": left, "in_flight": 0}
        return httpx.Response(200, json={"health": {"mirror": mirror}})

    client, transport = httpx.Client, httpx.MockTransport(answer)
    monkeypatch.setattr(arms.httpx, "Client", lambda **more: client(transport=transport, **more))
    monkeypatch.setattr(arms, "_REST_S", 0.0)
    upstream, router = (SimpleNamespace(url=f"http://{name}") for name in ("upstream", "router"))

    assert arms.settled(upstream, router) == 8


def test_a_wrong_reply_has_no_time_and_says_what_is_wrong(upstream):
    [reply] = asyncio.run(run_block(ask(upstream.url, text="another"), [0.0]))

    assert reply.total_s is None and reply.first_s is not None
    assert reply.error == "another text than the server's: 'word word word '"


def test_a_warm_up_that_fails_ends_it_before_anything_is_measured(upstream):
    started = []

    with pytest.raises(EngineError, match="does not answer as it should: another text"):
        asyncio.run(run_block(ask(upstream.url, text="x"), [0.0], 3, lambda: started.append(1)))
    assert started == []


def test_nobody_there_is_an_error_of_each_request():
    [reply] = asyncio.run(run_block(ask("http://127.0.0.1:9"), [0.0]))

    assert (reply.first_s, reply.total_s) == (None, None)
    assert reply.error.startswith("ClientConnectorError: ")


DATA = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'


@pytest.mark.parametrize(
    ("status", "kind", "data", "says"),
    [
        (502, "json", b"bad gateway", "HTTP 502: bad gateway"),
        (200, "json", b"<html>", "not a reply of this API: JSONDecodeError"),
        (200, "json", b"{}", "not a reply of this API: KeyError"),
        (200, "json", b'{"choices": []}', "another text"),
        (200, "stream", DATA, "does not end in [DONE]"),
        (200, "stream", b"", "does not end in [DONE]"),
        (200, "stream", b"data: [DONE]\n\n", "another text"),
        (200, "stream", DATA + b"data: [DONE]\n\n", None),
        (200, "stream", DATA + b'data: {"choices": []}\n\ndata: [DONE]\n\n', None),
    ],
    ids=["502", "html", "empty", "no-choice", "cut", "nothing", "only-done", "good", "usage"],
)
def test_only_the_server_s_own_reply_is_a_good_one(status, kind, data, says):
    found = what_is_wrong(status, data, ask("http://x", kind, "a"))

    assert (found is None) == (says is None)
    assert says is None or says in found


def test_a_proxy_that_died_in_a_block_ends_it(tmp_path):
    with ServerProcess(upstream_command(SHORT), tmp_path / "log") as process:
        assert cpu_s(process.pid) > 0
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and nobody has asked yet

        with pytest.raises(EngineError, match="has ended in the middle of a block"):
            cpu_s(process.pid)


def test_a_router_that_cannot_be_set_ends_it(upstream):
    with pytest.raises(EngineError, match="the router's state cannot be set: HTTP 404"):
        set_router(upstream.url, ARMS["router-shadow"])


def test_a_proxy_that_does_not_do_as_it_must_ends_it(tmp_path, monkeypatch):
    command = pass_through("http://127.0.0.1:9", "http://127.0.0.1:9", tmp_path)
    monkeypatch.setattr(arms, "TOKEN", "another")
    with ServerProcess(command, tmp_path / "log") as proxy:
        with pytest.raises(EngineError, match="its counts cannot be read"):
            arms.settled(proxy)
        with pytest.raises(EngineError, match="the router's state cannot be set: HTTP 401"):
            set_router(proxy.url, ARMS["router-canary"])
