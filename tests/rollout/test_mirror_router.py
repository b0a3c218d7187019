"""Copies of what passes through a real router, between two servers that follow scripts."""

from __future__ import annotations

import asyncio
import contextlib
import json

import aiohttp
import pytest

from specdecode.rollout.run import Stop, serve
from specdecode.rollout.settings import RouterSettings, Server
from specdecode.rollout.spool_reader import read_spool
from tests.wire.replies import error_reply, events, json_reply, stream
from tests.wire.server import Pause, WireServer

CHAT = ("POST", "/v1/chat/completions")
TOKEN = "of-the-test"  # noqa: S105 - of this test
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0}


def answer(text, finish="stop"):
    choice = {"index": 0, "message": {"content": text}, "finish_reason": finish}
    return json_reply(
        {
            "choices": [choice],
            "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5},
        }
    )


def streamed(text, end="whole"):
    chunks = [{"choices": [{"index": 0, "delta": {"content": c}}]} for c in text]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return stream(events(chunks), end=end)


class Scene:
    """A router in shadow of everything, and a client."""

    def __init__(self, url, client, candidate):
        self.url, self.client, self.candidate = url, client, candidate

    async def ask(self, body=ASKED, **headers):
        async with self.client.post(self.url + CHAT[1], json=body, headers=headers) as reply:
            return reply.status, await reply.read()

    async def mirror(self):
        async with self.client.get(f"{self.url}/rollout") as reply:
            return (await reply.json())["health"]["mirror"]

    async def set(self, mode, share=0.0):
        async with self.client.get(f"{self.url}/rollout") as reply:
            version = (await reply.json())["state"]["version"]
        change = {"expected_version": version, "mode": mode, "share": share, "reason": "a test"}
        change |= {"changed_by": "a test", "manifest_sha256": "0" * 64}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with self.client.put(f"{self.url}/rollout", json=change, headers=headers) as reply:
            assert reply.status == 200, await reply.text()

    async def until(self, name, count):
        """Until the mirror has counted so many."""
        while (await self.mirror())[name] < count:
            await asyncio.sleep(0.01)

    async def until_asked(self, count):
        """Until the candidate has read so many requests."""
        while len(self.candidate.requests) < count:
            await asyncio.sleep(0.01)


def shadowed(tmp_path, baseline, candidate, play, **options):
    """Plays with a router between two servers.

    Returns:
        Rows that count, by arm; and what the candidate was asked.
    """

    async def run(one, two):
        settings = RouterSettings(
            baseline=Server("plain", one.url),
            candidate=Server("block", two.url),
            state_dir=tmp_path,
            token=TOKEN,
            port=0,
            **{"finish_s": 0.2, "connect_s": 60.0} | options,
        )
        stop, ready = Stop(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve(settings, lambda host, port: ready.set_result(f"http://{host}:{port}"), stop)
        )
        try:
            async with aiohttp.ClientSession() as client:
                scene = Scene(await ready, client, two)
                await scene.set("shadow", 1.0)
                await play(scene)
        finally:
            stop()
            with contextlib.suppress(asyncio.CancelledError):
                await serving

    with WireServer({CHAT: baseline}) as one, WireServer({CHAT: candidate}) as two:
        asyncio.run(asyncio.wait_for(run(one, two), 120))
    rows = read_spool(tmp_path / "spool").to_pylist()
    return {arm: [r for r in rows if r["arm"] == arm] for arm in ("plain", "block")}, two.requests


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_a_pair_is_recorded_and_the_user_sees_the_baseline_only(tmp_path, streaming):
    users, theirs = ("yes", "no") if not streaming else ("yes, so", "no, never")
    script = streamed if streaming else answer
    seen = []

    async def play(scene):
        seen.append(await scene.ask(ASKED | {"stream": streaming, "user": "somebody"}, **USERS))
        await scene.until("ended", 1)

    rows, asked = shadowed(tmp_path, script(users), script(theirs), play)

    [(status, body)] = seen
    assert status == 200 and theirs.encode() not in body
    [plain], [block] = rows["plain"], rows["block"]
    assert plain["prompt_id"] == block["prompt_id"]
    assert {plain["stage"], block["stage"]} == {"shadow"}
    assert plain["error"] is None and block["error"] is None
    [copy] = asked
    sent = json.dumps(dict(copy.headers)) + copy.body.decode()
    assert copy.headers["x-specdecode-shadow"] == "1"
    assert copy.headers["x-specdecode-category"] == "code"
    for secret in ("of-the-user", "id=1", "somebody", "talk-seven"):
        assert secret not in sent


USERS = {
    "Authorization": "Bearer of-the-user",
    "Cookie": "id=1",
    "X-Specdecode-Conversation": "talk-seven",
    "X-Specdecode-Category": "code",
}


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (error_reply(500, "out of memory"), "http-5xx"),
        (error_reply(404, "no such model"), "http-4xx"),
        (answer("x")[:1], "disconnected"),
    ],
    ids=["500", "404", "cut"],
)
def test_a_failing_candidate_is_on_record_and_no_user_s_trouble(tmp_path, script, error):
    async def play(scene):
        assert (await scene.ask())[0] == 200
        await scene.until("ended", 1)

    rows, _ = shadowed(tmp_path, answer("yes"), script, play)

    assert len(rows["plain"]) == 1
    assert rows["block"][0]["error"].startswith(error)


def test_a_refusal_that_both_share_is_nobody_s_failure(tmp_path):
    async def play(scene):
        assert (await scene.ask())[0] == 404
        await scene.until("unjudged", 1)

    refused = error_reply(404, "no such model")
    rows, _ = shadowed(tmp_path, refused, refused, play)

    assert rows == {"plain": [], "block": []}


def test_a_candidate_that_hangs_costs_users_nothing_and_leaves_no_half_of_a_pair(tmp_path):
    async def play(scene):
        for _ in range(8):
            assert (await scene.ask())[0] == 200
        found = await scene.mirror()
        assert (found["in_flight"], found["waiting"], found["shed_full"]) == (2, 3, 3)
        await scene.until_asked(2)

    hanging = (Pause(3600),)
    rows, asked = shadowed(
        tmp_path, answer("yes"), hanging, play, shadow_concurrency=2, shadow_queue=3
    )

    assert rows == {"plain": [], "block": []}
    assert len(asked) == 2


def test_what_does_more_than_decode_is_answered_and_not_copied(tmp_path):
    async def play(scene):
        assert (await scene.ask(ASKED | {"store": True}))[0] == 200
        assert (await scene.ask(ASKED | {"tools": [{"type": "web_search"}]}))[0] == 200
        found = await scene.mirror()
        assert (found["refused_stored"], found["refused_server_tool"]) == (1, 1)

    rows, asked = shadowed(tmp_path, answer("yes"), answer("no"), play)

    assert rows == {"plain": [], "block": []}
    assert asked == []


def test_nothing_that_waits_is_sent_once_the_rollout_is_off(tmp_path):
    async def play(scene):
        for _ in range(4):
            assert (await scene.ask())[0] == 200
        await scene.until_asked(1)
        await scene.set("off")
        found = await scene.mirror()
        assert (found["waiting"], found["shed_state"]) == (0, 3)
        assert (await scene.ask())[0] == 200

    rows, asked = shadowed(tmp_path, answer("yes"), (Pause(3600),), play, shadow_concurrency=1)

    assert len(asked) == 1
    assert rows == {"plain": [], "block": []}


def test_deferred_copies_are_sent_when_no_user_is_there(tmp_path):
    async def play(scene):
        users = [asyncio.create_task(scene.ask()) for _ in range(3)]
        await asyncio.gather(*users)
        await scene.until("ended", 3)

    rows, asked = shadowed(tmp_path, answer("yes"), answer("no"), play, shadow_when="idle")

    assert len(asked) == len(rows["plain"]) == len(rows["block"]) == 3
