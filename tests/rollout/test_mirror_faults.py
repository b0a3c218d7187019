"""Whatever goes wrong around a mirror costs one copy at most, and no user."""

from __future__ import annotations

import asyncio

import pytest

from specdecode.errors import ConfigError
from tests.rollout.mirror_scene import Scene, copy_of, played


def test_who_cannot_tell_whether_it_is_idle_is_not():
    def unknown():
        raise RuntimeError("no gauge")

    async def play(scene):
        scene.mirror.offer(copy_of("a"))
        await scene.settled()

    scene = played(play, when="idle", is_idle=unknown)

    assert scene.spool.of("shed") == [("a", "stopped")]
    assert scene.mirror.counts.broken >= 1


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        (copy_of("a", body=b"[1]"), "malformed"),
        (copy_of("a", body=b"{"), "malformed"),
        (copy_of("a", body=b'{"prompt": "' + b"x" * 2000 + b'"}'), "size"),
    ],
    ids=["no-object", "no-json", "large"],
)
def test_what_cannot_be_copied_is_shed(copy, why):
    async def play(scene):
        assert not scene.mirror.offer(copy)

    scene = played(play, max_body_bytes=1000)

    assert scene.spool.told == [("shed", "a", why)]
    assert scene.mirror.counts.sent.total() == 0


def test_what_would_do_more_than_decode_is_refused_and_counted_apart():
    async def play(scene):
        assert not scene.mirror.offer(copy_of("a", body=b'{"store": true}'))
        assert not scene.mirror.offer(copy_of("b", path="/v1/embeddings"))

    scene = played(play)

    found = scene.mirror.to_json()
    assert (found["refused_stored"], found["refused_route"], found["shed"]) == (1, 1, 0)
    assert found["sent_share"] is None


def test_what_cannot_be_recorded_is_not_sent():
    async def play(scene):
        scene.mirror.offer(copy_of("a"))
        scene.spool.recording = False
        assert not scene.mirror.offer(copy_of("b"))
        await scene.settled()

    scene = played(play)

    assert scene.candidate.asked == {}
    assert scene.spool.of("shed") == [("b", "recording"), ("a", "recording")]


def test_a_reply_without_an_end_is_the_candidate_s_failure():
    async def play(scene):
        scene.mirror.offer(copy_of("a"))
        while not scene.spool.rows:
            await asyncio.sleep(0.01)

    scene = played(play, deadline_s=0.01)

    assert scene.spool.of("row") == [("a", "deadline: the reply was not whole after 0.01 s")]


@pytest.mark.parametrize(
    "error",
    [RuntimeError("bug"), TimeoutError("own"), asyncio.CancelledError()],
    ids=["error", "timeout", "cancelled"],
)
def test_an_error_of_the_sender_itself_is_the_router_s_own(error):
    async def play(scene):
        async def broken(_):
            raise error

        scene.mirror._send = broken
        scene.mirror.offer(copy_of("a"))
        await scene.settled()
        scene.mirror._send = scene.candidate
        scene.mirror.offer(copy_of("b"))
        await scene.candidate.until_asked("b")
        scene.candidate.answer("b")
        await scene.settled()

    scene = played(play)

    assert scene.spool.of("shed") == [("a", "broken")]
    assert scene.spool.of("row") == [("b", None)]


@pytest.mark.parametrize("method", ["queued", "begin", "append"])
def test_a_spool_that_raises_takes_one_copy_with_it(method, monkeypatch):
    async def play(scene):
        def broken(*_):
            monkeypatch.undo()
            raise OSError("disk full")

        monkeypatch.setattr(scene.spool, method, broken)
        scene.candidate.answer("a")
        scene.candidate.answer("b")
        assert scene.mirror.offer(copy_of("a", partner="a/greedy/plain")) == (method != "queued")
        await scene.settled()
        scene.mirror.offer(copy_of("b"))
        await scene.settled()

    scene = played(play)

    assert scene.spool.of("shed") == [("a", "broken")]
    assert scene.spool.retracted == ["a/greedy/plain"]
    assert scene.spool.of("row") == [("b", None)]
    assert scene.mirror.counts.broken == 1


def test_an_offer_never_raises():
    async def play(scene):
        scene.spool.without_row = None
        assert not scene.mirror.offer(copy_of("a", body=b"{"))
        assert not scene.mirror.offer(None)
        del scene.spool.without_row

    async def run():
        async with Scene() as scene:
            await play(scene)
        return scene.mirror.counts

    assert asyncio.run(run()).broken == 2


@pytest.mark.parametrize(
    "options",
    [{"in_flight": 0}, {"queue": 0}, {"max_body_bytes": 0}, {"max_wait_s": -1.0},
     {"deadline_s": float("nan")}, {"when": "later"}],
    ids=["in_flight", "queue", "max_body_bytes", "max_wait_s", "deadline_s", "when"],
)  # fmt: skip
def test_limits_that_let_nothing_through_are_refused(options):
    with pytest.raises(ConfigError, match=f"mirror: {next(iter(options))} is"):
        Scene(**options)
