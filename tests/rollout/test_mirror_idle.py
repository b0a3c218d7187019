"""Copies that wait until users leave the baseline alone."""

from __future__ import annotations

import asyncio

import pytest

from specdecode.rollout.idle import Idleness
from tests.rollout.mirror_scene import copy_of, played


def test_a_copy_for_now_does_not_ask_whether_anybody_is_idle():
    async def play(scene):
        scene.mirror.offer(copy_of("a"))
        await scene.candidate.until_asked("a")

    played(play, is_idle=lambda: False)


def test_a_deferred_copy_waits_until_the_last_user_has_been_answered():
    idle = Idleness()

    async def play(scene):
        idle._changed = scene.mirror.wake
        with idle.user():
            with idle.user():
                scene.mirror.offer(copy_of("a"))
                await scene.settled()
            assert scene.candidate.asked == {}
            assert scene.mirror.waiting == 1
        await scene.candidate.until_asked("a")
        scene.candidate.answer("a")
        await scene.settled()

    scene = played(play, when="idle", is_idle=idle.is_idle)

    assert scene.spool.of("row") == [("a", None)]


def test_idleness_is_noticed_also_if_nobody_tells():
    idle = []

    async def play(scene):
        scene.mirror.offer(copy_of("a"))
        await scene.settled()
        assert scene.candidate.asked == {}
        idle.append(True)
        await scene.candidate.until_asked("a")

    played(play, when="idle", is_idle=lambda: bool(idle))


def test_a_copy_that_waited_too_long_is_shed():
    async def play(scene):
        scene.mirror.offer(copy_of("a"))
        while not scene.spool.of("shed"):
            await asyncio.sleep(0.01)

    scene = played(play, when="idle", is_idle=lambda: False, max_wait_s=0.001)

    assert scene.spool.of("shed") == [("a", "old")]


def test_idleness_begins_some_time_after_the_last_answer():
    now = [0.0]
    told = []
    idle = Idleness(5.0, lambda: told.append(now[0]), lambda: now[0])
    assert idle.is_idle()

    now[0] = 1.0
    with pytest.raises(RuntimeError), idle.user():
        assert not idle.is_idle()
        now[0] = 2.0
        raise RuntimeError("the user has gone")

    assert told == [2.0]
    assert idle.busy == 0
    now[0] = 6.9
    assert not idle.is_idle()
    now[0] = 7.0
    assert idle.is_idle()


def test_the_last_of_several_users_ends_it():
    told = []
    idle = Idleness(changed=lambda: told.append(idle.busy))

    with idle.user(), idle.user():
        pass

    assert told == [0]


@pytest.mark.parametrize("quiet_s", [-1.0, float("nan")])
def test_time_of_quiet_is_not_negative(quiet_s):
    with pytest.raises(ValueError, match="quiet_s is"):
        Idleness(quiet_s)
