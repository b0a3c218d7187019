"""A mirror, a spool that remembers, and a candidate that answers when the test says so."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

from specdecode.measurement.records import Record
from specdecode.rollout.mirror import Copy, Mirror
from specdecode.rollout.mirror_counts import SHED

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
WORDS = {said: word for word, said in SHED.items()}
OFFERED_AT = datetime(2026, 1, 2, tzinfo=UTC)


def copy_of(name, *, path=TEXT, body=None, partner=None):
    asked = {
        "request_id": f"{name}/greedy/block",
        "prompt_id": name,
        "arm": "block",
        "stage": "shadow",
        "sampling": {"name": "greedy"},
        "started_at": OFFERED_AT,
        "manifest_sha256": "0" * 64,
    }
    given = json.dumps({"prompt": name}).encode() if body is None else body
    users = {"Authorization": "Bearer of-the-user"}
    return Copy(path, given, users, asked, streaming=False, partner=partner)


class FakeSpool:
    """Keeps what it is told, in order: (kind of the line, prompt, why or partner)."""

    def __init__(self):
        self.recording = True
        self.told = []
        self.rows = []
        self.retracted = []

    def begin(self, asked):
        self.told.append(("begin", asked["prompt_id"], None))

    def append(self, record, extra=None):
        self.rows.append(record)
        self.told.append(("row", record.prompt_id, record.error))

    def queued(self, asked, partner):
        self.told.append(("queued", asked["prompt_id"], partner))

    def without_row(self, kind, request_id, why, *, retract=(), **_):
        self.told.append((kind, request_id.partition("/")[0], WORDS.get(why, why)))
        self.retracted += retract

    def of(self, kind):
        return [(prompt, why) for what, prompt, why in self.told if what == kind]


class Candidate:
    """Answers what it is asked, once it may."""

    def __init__(self):
        self.asked = {}
        self.may = {}
        self.came = asyncio.Event()

    async def __call__(self, copy):
        name = copy.asked["prompt_id"]
        self.asked[name] = copy
        self.came.set()
        error = await self.may.setdefault(name, asyncio.get_running_loop().create_future())
        return Record.model_validate({**copy.asked, "error": error})

    def answer(self, name, error=None):
        self.may.setdefault(name, asyncio.get_running_loop().create_future()).set_result(error)

    async def until_asked(self, *names):
        while not self.asked.keys() >= set(names):
            self.came.clear()
            await self.came.wait()


class Scene:
    """A mirror that runs, its candidate and its spool."""

    def __init__(self, **options):
        self.candidate, self.spool = Candidate(), FakeSpool()
        self.mirror = Mirror(self.candidate, self.spool, **options)

    async def __aenter__(self):
        self._running = asyncio.create_task(self.mirror.run())
        return self

    async def __aexit__(self, *_):
        await self.mirror.stop(0)
        await self._running

    async def settled(self):
        """All that can happen without an answer has happened."""
        for _ in range(20):
            await asyncio.sleep(0)


def played(play, **options):
    """Runs a play, and checks that the numbers add up in the end."""

    async def run():
        async with Scene(**options) as scene:
            await play(scene)
        return scene

    scene = asyncio.run(asyncio.wait_for(run(), 120))
    counts = scene.mirror.counts
    assert scene.mirror.waiting == scene.mirror.in_flight == 0
    assert counts.offered.total() == (
        counts.refused.total() + counts.shed.total() + counts.ended + counts.unjudged
    ), counts
    assert counts.ended == len(scene.spool.rows)
    assert counts.refused.total() + counts.shed.total() == len(scene.spool.of("shed"))
    return scene
