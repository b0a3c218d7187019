"""Whatever happens in whatever order: every copy has exactly one end, and no bound is passed."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rollout.mirror_scene import Scene, copy_of

STEPS = st.one_of(
    st.sampled_from(["offer", "offer", "offer", "refused", "large", "busy", "idle", "state"]),
    st.sampled_from(["deaf", "recording", "cancel", "turn", "turn"]),
    st.tuples(st.just("answer"), st.sampled_from([None, "http-5xx: no"])),
)


async def one_step(scene, step, number, idle):
    match step:
        case "offer":
            scene.mirror.offer(copy_of(f"p{number}"))
        case "refused":
            scene.mirror.offer(copy_of(f"p{number}", body=b'{"store": true}'))
        case "large":
            scene.mirror.offer(copy_of(f"p{number}", body=b'{"prompt": "' + b"x" * 200 + b'"}'))
        case "busy" | "idle":
            idle[0] = step == "idle"
            scene.mirror.wake()
        case "state":
            scene.mirror.shed_waiting()
        case "deaf" | "recording":
            scene.spool.recording = step == "recording"
        case "cancel":
            for task in list(scene.mirror._tasks)[:1]:
                task.cancel()
        case "turn":
            await scene.settled()
        case ("answer", error):
            for future in (f for f in scene.candidate.may.values() if not f.done()):
                future.set_result(error)
                break


@settings(max_examples=150, deadline=None)
@given(
    st.lists(STEPS, max_size=40),
    st.sampled_from(["now", "idle"]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
)
def test_every_copy_has_one_end(steps, when, in_flight, queue, finish):
    idle = [True]

    async def play():
        options = {"when": when, "in_flight": in_flight, "queue": queue, "max_body_bytes": 100}
        async with Scene(is_idle=lambda: idle[0], **options) as scene:
            for number, step in enumerate(steps):
                await one_step(scene, step, number, idle)
                assert scene.mirror.in_flight <= in_flight
                assert scene.mirror.waiting <= queue
            await scene.settled()
            if finish:
                for future in scene.candidate.may.values():
                    if not future.done():
                        future.set_result(None)
                await scene.mirror.stop(30)
        return scene

    scene = asyncio.run(play())

    counts = scene.mirror.counts
    offered = [f"p{n}" for n, step in enumerate(steps) if step in ("offer", "refused", "large")]
    ends = Counter(name for kind, name, _ in scene.spool.told if kind in ("row", "shed"))
    assert ends == Counter(offered)
    assert counts.offered.total() == len(offered)
    assert len(offered) == counts.refused.total() + counts.shed.total() + counts.ended
    assert scene.mirror.in_flight == scene.mirror.waiting == counts.broken == 0
    begun = [name for name, _ in scene.spool.of("begin")]
    assert len(begun) == len(set(begun)) == counts.sent.total()
    assert begun == sorted(begun, key=lambda name: int(name[1:]))  # the order of asking
