"""What the tests of every external engine ask of it."""

from __future__ import annotations

import asyncio

import httpx

from pipelines.external.servers import NAME
from specdecode.workload.engines import Server, detect
from specdecode.workload.load import EngineSide, LoadSpec, run_load

SLOW_S = 120.0
PROMPTS = (
    "List the days of the week.",
    "Write a haiku about rain.",
    "Count from one to twenty.",
    "Name three colours.",
)


def recognise(url):
    return asyncio.run(detect(url, timeout_s=SLOW_S))


def read(url, adapter):
    async def go():
        async with Server(url, timeout_s=SLOW_S) as server:
            return await server.ask(adapter.paths)

    return asyncio.run(go())


def chat(url, prompt, **fields):
    body = {"model": NAME, "messages": [{"role": "user", "content": prompt}], **fields}
    answer = httpx.post(url + "/v1/chat/completions", json=body, timeout=SLOW_S, trust_env=False)
    answer.raise_for_status()
    return answer.json()


def replies_and_interval(url, adapter, **fields):
    """(JSON of a few replies, what the server counted meanwhile)."""
    before = read(url, adapter)
    bodies = [chat(url, p, max_tokens=16, seed=i, **fields) for i, p in enumerate(PROMPTS)]
    return bodies, adapter.between(before, read(url, adapter))


def load(url, folder, **fields):
    engine = EngineSide.find(url, "auto", None)
    spec = {
        "url": url,
        "model": NAME,
        "concurrency": 2,
        "requests": 6,
        "input_tokens": 24,
        "max_tokens": 12,
        "warm_up": 1,
        "temperature": 0.8,
        "extra_body": engine.request_fields,
        "deadline_s": SLOW_S,
        "idle_timeout_s": SLOW_S,
    }
    return run_load(LoadSpec(**{**spec, **fields}), folder, engine=engine)
