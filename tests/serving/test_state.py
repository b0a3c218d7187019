"""What the adapters of `specdecode load` and of gates read from a live server."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from specdecode.workload.engines.own import Own
from specdecode.workload.engines.server import Server
from tests.serving.servers import eventually
from tests.serving.test_api import ASK, post


def state(running):
    """A server's state and its metrics, through the adapter."""

    async def ask():
        async with Server(running.url) as server:
            facts = await server.ask(Own.paths)
            return Own().state(facts), facts.metrics

    return asyncio.run(ask())


def held_bytes(metrics) -> float:
    (value,) = metrics.gauge("specdecode:kv_cache_bytes").values()
    (own,) = metrics.gauge("specdecode:draft_kv_cache_bytes").values()
    assert own == 0, "this draft uses the target's cache"
    return value


def test_the_cache_is_told_before_during_and_after_a_reply(slow):
    server = slow(slots=3, max_prompt_tokens=40, max_tokens=60)
    before, metrics = state(server)
    assert (before.context_length, before.kv_cache_tokens) == (100, 300)
    assert (before.kv_cache_usage, before.preemptions) == (0.0, 0)
    assert (before.prefix_queried_tokens, before.prefix_hit_tokens) == (0, 0)
    assert before.options["cache_config"]["slots"] == "3"
    assert held_bytes(metrics) == 0

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(post, server, "/v1/completions", **{**ASK, "max_tokens": 60, "n": 2})
        eventually(lambda: len(server.scheduler._batch.requests) == 2)
        eventually(lambda: server.scheduler.cache_tokens > 12)
        during, metrics = state(server)
        assert asked.result().status_code == 200

    assert 12 / 300 < during.kv_cache_usage <= (2 * 66) / 300
    assert (during.running, during.queued) == (2, 0)
    layers, heads, size = 4, 2, 8
    # A row has 66 slots at least.
    assert held_bytes(metrics) >= 2 * 66 * 2 * layers * heads * size * 4
    eventually(lambda: server.scheduler.cache_tokens == 0)
    after, _ = state(server)
    assert after.kv_cache_usage == 0
    assert (after.prefix_queried_tokens, after.prefix_hit_tokens) == (12, 6)
    assert not {"kv_cache_usage", "kv_cache_tokens", "context_length"} & set(after.unknown)


def test_a_context_that_the_settings_do_not_limit_is_the_models(server):
    told, _ = state(server)

    assert told.context_length == 256
    assert told.kv_cache_tokens == 4 * 256
