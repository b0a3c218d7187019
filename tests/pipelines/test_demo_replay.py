"""The replayer: sends what the trace says, and counts what users got without sparing anybody."""

from __future__ import annotations

import asyncio
import contextlib
import json
from itertools import islice

import pytest
from aiohttp import web

from pipelines.demo.replay import Counts, Replay, ReplaySettings, main, rounds
from pipelines.demo.traffic import made_trace

TRACE = made_trace(20, 1000.0)
WHOLE = b'data: {"choices": [{"index": 0, "delta": {"content": "yes"}}]}\n\ndata: [DONE]\n\n'


@contextlib.asynccontextmanager
async def server(answer):
    """A server whose chat route is `answer`; (its address, the requests it got)."""
    got = []

    async def chat(request):
        got.append((await request.json(), dict(request.headers)))
        return await answer(request, len(got))

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"http://127.0.0.1:{port}", got
    finally:
        await runner.cleanup()


def replayed(answer, out=None, **settings):
    async def run():
        async with server(answer) as (url, got):
            own = ReplaySettings(url, **{"limit": len(TRACE), "speed": 100.0, **settings})
            return await Replay(TRACE, own, out).run(), got

    return asyncio.run(run())


async def good(_request, number):
    headers = {"x-specdecode-arm": "block" if number % 4 == 0 else "plain"}
    return web.Response(body=WHOLE, content_type="text/event-stream", headers=headers)


def test_every_request_is_sent_as_the_trace_has_it(tmp_path):
    counts, got = replayed(good, tmp_path / "counts.json")

    assert len(got) == len(TRACE)
    sent = {headers["x-specdecode-conversation"]: (body, headers) for body, headers in got}
    for asked in TRACE:
        body, headers = sent[f"{asked.conversation}-r0"]
        assert body["messages"] == [{"role": "user", "content": asked.prompt}]
        assert (body["temperature"], body["max_tokens"]) == (asked.temperature, asked.max_tokens)
        assert body["return_token_ids"] is True
        assert headers["x-specdecode-category"] == asked.category
    told = json.loads((tmp_path / "counts.json").read_text())
    assert told == counts.document(running=False)
    assert told["arms"] == {"block": 5, "plain": 15}
    assert told["error_rate"] == 0
    assert told["in_flight"] == 0


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param(WHOLE.removesuffix(b"data: [DONE]\n\n"), "no-done", id="no end"),
        pytest.param(b'data: {"error": {"message": "x"}}\n\n' + WHOLE, "stream-error", id="error"),
        pytest.param(b"data: {\n\n", "malformed", id="not json"),
    ],
)
def test_a_stream_that_is_not_whole_is_a_failure(body, kind):
    async def answer(_request, _number):
        return web.Response(body=body, content_type="text/event-stream")

    counts, _ = replayed(answer)

    assert counts.failed == {kind: len(TRACE)}
    assert counts.document(running=False)["error_rate"] == 1


def test_refusals_and_broken_connections_are_failures():
    async def answer(request, number):
        if number % 2:
            return web.Response(status=503)
        request.transport.close()
        return web.Response()

    counts, _ = replayed(answer)

    assert counts.failed["http_503"] == 10
    assert counts.failed.total() == 20
    assert counts.replied == 0


def test_a_reply_of_the_baseline_after_a_failure_is_counted_as_such():
    async def answer(_request, _number):
        headers = {"x-specdecode-arm": "plain", "x-specdecode-retried": "candidate"}
        return web.Response(body=WHOLE, content_type="text/event-stream", headers=headers)

    counts, _ = replayed(answer)

    assert counts.retried == len(TRACE)
    assert counts.failed.total() == 0


def test_a_user_gives_up_in_the_end():
    async def answer(_request, _number):
        await asyncio.Event().wait()

    counts, _ = replayed(answer, limit=2, reply_s=0.2)

    assert counts.failed == {"timeout": 2}


def test_too_many_open_replies_hold_users_back_and_say_so():
    async def answer(request, number):
        await asyncio.sleep(0)
        return await good(request, number)

    counts, got = replayed(answer, in_flight=1)

    assert len(got) == counts.replied == len(TRACE)
    assert counts.held_back > 0


def test_stop_waits_for_what_is_out():
    async def run():
        arrived, go_on = asyncio.Event(), asyncio.Event()

        async def answer(request, number):
            arrived.set()
            await go_on.wait()
            return await good(request, number)

        async with server(answer) as (url, got):
            replay = Replay(TRACE, ReplaySettings(url, limit=None), None)
            running = asyncio.create_task(replay.run())
            await arrived.wait()
            replay.stop()
            go_on.set()
            return await running, got

    counts, got = asyncio.run(run())
    assert counts.sent == counts.replied == len(got) > 0


def test_rounds_follow_each_other_with_conversations_of_their_own():
    n = len(TRACE)
    found = list(islice(rounds(TRACE, None), 2 * n))

    assert [due for due, _, _ in found] == sorted(due for due, _, _ in found)
    assert len({conversation for _, _, conversation in found}) == 2 * n
    assert [asked for _, asked, _ in found] == TRACE * 2
    assert len(list(rounds(TRACE, n + 3))) == n + 3


def test_nothing_sent_has_no_error_rate():
    assert Counts().document(running=True)["error_rate"] is None


@pytest.mark.parametrize("wrong", [["--speed", "0"], ["--limit", "0"]], ids=["speed", "limit"])
def test_the_command_refuses_what_means_nothing(wrong):
    with pytest.raises(SystemExit):
        main(["http://127.0.0.1:9", *wrong])


def test_the_command_names_a_trace_that_is_not_there(tmp_path, capsys):
    assert main(["http://127.0.0.1:9", "--trace", str(tmp_path / "no.jsonl")]) == 2
    assert "no.jsonl" in capsys.readouterr().err
