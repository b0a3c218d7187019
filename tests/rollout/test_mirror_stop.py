"""Copies that are given up: the mirror stops, or the state that they were meant for is over."""

from __future__ import annotations

import asyncio

from specdecode.measurement.records import Record
from tests.rollout.mirror_scene import copy_of, played


def test_what_waits_is_not_sent_under_another_state():
    async def play(scene):
        for name in "abc":
            scene.mirror.offer(copy_of(name))
        await scene.settled()
        assert scene.mirror.shed_waiting() == 2
        scene.candidate.answer("a")
        await scene.settled()

    scene = played(play, in_flight=1)

    assert scene.spool.of("row") == [("a", None)]
    assert scene.spool.of("shed") == [("b", "state"), ("c", "state")]


def test_stopping_finishes_what_is_in_flight_and_sheds_what_waits():
    async def play(scene):
        for name in "ab":
            scene.mirror.offer(copy_of(name))
        await scene.candidate.until_asked("a")
        stopping = asyncio.create_task(scene.mirror.stop(30))
        await scene.settled()
        assert not scene.mirror.offer(copy_of("c"))
        scene.candidate.answer("a")
        await stopping

    scene = played(play, in_flight=1)

    assert scene.spool.of("row") == [("a", None)]
    assert scene.spool.of("shed") == [("b", "stopped"), ("c", "stopped")]


def test_what_is_not_finished_in_time_is_cut_off_and_no_failure_of_the_candidate():
    async def play(scene):
        for name in "ab":
            scene.mirror.offer(copy_of(name))
        await scene.candidate.until_asked("a", "b")
        await scene.mirror.stop(0)

    scene = played(play)

    assert scene.spool.rows == []
    assert scene.spool.of("shed") == [("a", "stopped"), ("b", "stopped")]
    assert scene.mirror.counts.broken == 0


def test_a_copy_that_was_cancelled_before_it_began_is_counted():
    async def play(scene):
        scene.mirror.offer(copy_of("a"))
        scene.mirror._send_what_may()
        next(iter(scene.mirror._tasks)).cancel()  # its task is there, and has not run
        await scene.settled()

    scene = played(play)

    assert scene.spool.told == [("shed", "a", "broken")]


def test_a_sender_that_makes_a_row_of_being_cut_off_changes_nothing():
    async def play(scene):
        async def stubborn(copy):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return Record.model_validate({**copy.asked, "error": "interrupted: cut off"})

        scene.mirror._send = stubborn
        scene.mirror.offer(copy_of("a"))
        await scene.settled()

    scene = played(play)

    assert scene.spool.told == [("begin", "a", None), ("shed", "a", "stopped")]
