"""A crowd of clients that leave, and a candidate that fails in every way: the numbers add up."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from specdecode.rollout.settings import Limits
from tests.rollout.routers import CHAT_PATH, ENDS, eventually, routing
from tests.rollout.scripts import replying, routes
from tests.wire.engines import VLLM
from tests.wire.replies import error_reply, events, json_reply, stream
from tests.wire.server import Pause, Reset, WireServer

REQUESTS, AT_ONCE = 240, 16
LIMITS = Limits(concurrency=10**6, failures=10**6)
GOOD = replying("a good reply")
OOM = {"error": {"message": "out of memory", "type": "InternalServerError", "code": 500}}


def faulty(seed):
    """A server of many faults, half of whose replies are good."""
    chance = random.Random(seed)  # noqa: S311 - faults of a test

    def script(request):
        pieces = events(VLLM.chunks())
        return chance.choice(
            [
                *[GOOD(request)] * 8,
                [Reset()],
                [b"nonsense\r\n\r\n"],
                error_reply(500, "x"),
                error_reply(429, "x"),
                error_reply(404, "x"),
                json_reply(OOM),
                stream(events([OOM])),
                stream([]),
                stream(pieces[:3], end="cut"),
                stream(pieces[:3], end="reset"),
                [Pause(0.05), *GOOD(request)],
            ]
        )

    return script


async def crowd(url, seed):
    """What came of requests, of which some are given up."""
    chance = random.Random(seed)  # noqa: S311 - whims of a test
    gate = asyncio.Semaphore(AT_ONCE)
    found: Counter[str] = Counter()

    async def one(number):
        body = {"messages": [{"role": "user", "content": f"{number}"}]}
        if chance.random() < 0.7:
            body["stream"] = True
        patience = aiohttp.ClientTimeout(total=chance.choice([60] * 4 + [0.004, 0.02]))
        async with gate:
            try:
                async with client.post(url + CHAT_PATH, json=body, timeout=patience) as reply:
                    await reply.read()
                    found[str(reply.status)] += 1
            except TimeoutError:
                found["left"] += 1
            except aiohttp.ClientError:
                found["broken"] += 1

    async with aiohttp.ClientSession() as client:
        await asyncio.gather(*(one(number) for number in range(REQUESTS)))
    return found


@pytest.mark.parametrize("mode", ["shadow", "canary", "full"])
def test_every_request_has_one_end_and_nothing_is_left_over(tmp_path, mode):
    with (
        WireServer(routes(GOOD)) as baseline,
        WireServer(routes(faulty(7))) as candidate,
        routing(
            baseline.url, candidate.url, tmp_path, mode, 0.5 if mode == "canary" else None,
            limits=LIMITS, shadow_queue=1000,
        ) as router,
    ):  # fmt: skip
        files = _files()
        found = asyncio.run(crowd(router.url, 3))
        eventually(lambda: _settled(router))
        for arm in ("plain", "block"):  # the last ones may be with the baseline after their row
            eventually(lambda arm=arm: router.metric("in_flight", arm=arm) == 0)
        health = router.health
        eventually(lambda: _files() <= files + 8)  # connections are kept for a while

    assert found.total() == REQUESTS
    assert found["200"] > REQUESTS / 2
    assert set(found) <= {"200", "left", "broken"}
    assert mode != "shadow" or not found["broken"]
    assert health["candidate"]["in_flight"] == 0
    assert health["recording"] is True
    assert health["unrecorded"] == health["mirror"]["broken"] == 0
    lines = router.lines()
    begun = Counter(line["asked"]["request_id"] for line in lines if line["kind"] == "begin")
    ended = Counter(
        line["record"]["request_id"] if line["kind"] == "row" else line["request_id"]
        for line in lines
        if line["kind"] in ENDS
    )
    assert set(begun.values()) == set(ended.values()) == {1}
    assert set(begun) <= set(ended)
    errors = [line["record"]["error"] for line in lines if line["kind"] == "row"
              and line["record"]["arm"] == "plain" and "error" in line["record"]]  # fmt: skip
    assert errors == []


def _settled(router):
    health = router.health
    counts, mirror = health["spool"], health["mirror"]
    ended = counts["recorded"] + sum(counts["without_row"].values())
    return ended >= counts["begun"] and not (mirror.get("waiting") or mirror.get("in_flight"))


def _files():
    return len(list(Path(f"/proc/{os.getpid()}/fd").iterdir()))
