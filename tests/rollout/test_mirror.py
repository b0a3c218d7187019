"""What becomes of copies: rows, refusals, what is shed for want of room, and the counts of it."""

from __future__ import annotations

import asyncio
import json

import pytest

from specdecode.rollout.mirror import Mirror, NoRow
from specdecode.rollout.mirror_counts import SHED
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_snapshot import Snapshot
from tests.rollout.mirror_scene import CHAT, OFFERED_AT, TEXT, Candidate, FakeSpool, copy_of, played


def test_a_copy_becomes_a_row_that_starts_when_it_was_sent():
    async def play(scene):
        assert scene.mirror.offer(copy_of("a"))
        await scene.candidate.until_asked("a")
        scene.candidate.answer("a")
        await scene.settled()

    scene = played(play)

    assert scene.spool.told == [("begin", "a", None), ("row", "a", None)]
    assert scene.spool.rows[0].started_at > OFFERED_AT
    assert "authorization" not in scene.candidate.asked["a"].headers
    assert scene.candidate.asked["a"].headers["x-specdecode-shadow"] == "1"


def test_a_candidate_that_fails_has_a_row_too():
    async def play(scene):
        scene.mirror.offer(copy_of("a"))
        scene.candidate.answer("a", "http-5xx: HTTP 500")
        await scene.candidate.until_asked("a")
        await scene.settled()

    scene = played(play)

    assert scene.spool.of("row") == [("a", "http-5xx: HTTP 500")]
    assert (scene.mirror.counts.ended, scene.mirror.counts.failed) == (1, 1)


def test_a_reply_that_says_nothing_of_the_candidate_has_no_row_and_no_pair():
    async def play(scene):
        async def refused(_):
            return NoRow("refused", "HTTP 400: the prompt is too long")

        scene.mirror._send = refused
        scene.mirror.offer(copy_of("a", partner="a/greedy/plain"))
        await scene.settled()

    scene = played(play)

    assert scene.spool.told == [
        ("queued", "a", "a/greedy/plain"),
        ("begin", "a", None),
        ("refused", "a", "HTTP 400: the prompt is too long"),
    ]
    assert scene.spool.retracted == ["a/greedy/plain"]
    assert scene.mirror.counts.unjudged == 1


@pytest.mark.parametrize("body", [None, b'{"store": true}', b"[]"], ids=["full", "refused", "shed"])
def test_the_baseline_s_row_does_not_count_without_its_copy(body):
    async def play(scene):
        scene.mirror.offer(copy_of("a", body=body, partner="a/greedy/plain"))
        scene.mirror.offer(copy_of("b"))
        await scene.mirror.stop(0)

    scene = played(play, queue=1)

    assert scene.spool.retracted == ["a/greedy/plain"]


def test_a_copy_without_a_reply_says_of_which_stage_and_manifest_it_was(tmp_path):
    """A spool holds several; what was shed of one says nothing of another."""
    copy = copy_of("a", body=b"[]")
    with Spool(tmp_path) as spool:
        mirror = Mirror(Candidate(), spool)
        mirror.offer(copy)
        mirror.withheld(copy_of("b").asked, "the candidate's limits: rate")

    shed = list(Snapshot(tmp_path).lines("shed"))
    assert [line["request_id"] for line in shed] == ["a/greedy/block", "b/greedy/block"]
    assert {(line["stage"], line["manifest_sha256"]) for line in shed} == {("shadow", "0" * 64)}
    assert shed[1]["why"] == "the candidate's limits: rate"
    assert mirror.counts.offered.total() == mirror.counts.shed.total() == 1


def test_no_more_than_the_bound_are_in_flight_and_the_oldest_in_the_queue_gives_way():
    async def play(scene):
        for name in "abcdefg":
            assert scene.mirror.offer(copy_of(name))
            await scene.settled()
        assert set(scene.candidate.asked) == {"a", "b"}
        assert scene.mirror.in_flight == 2
        assert scene.spool.of("shed") == [("c", "full"), ("d", "full")]
        for name in "abefg":
            scene.candidate.answer(name)
        await scene.candidate.until_asked("a", "b", "e", "f", "g")
        await scene.settled()

    scene = played(play, in_flight=2, queue=3)

    assert scene.mirror.counts.ended == 5
    assert scene.mirror.to_json()["shed_full"] == 2
    assert scene.mirror.to_json()["sent_share"] == pytest.approx(5 / 7)


def test_what_is_offered_before_it_runs_waits():
    async def play():
        candidate, spool = Candidate(), FakeSpool()
        mirror = Mirror(candidate, spool, queue=1)
        mirror.offer(copy_of("a"))
        mirror.offer(copy_of("b"))
        running = asyncio.create_task(mirror.run())
        await candidate.until_asked("b")
        candidate.answer("b")
        await mirror.stop(30)
        await running
        return spool

    spool = asyncio.run(play())

    assert spool.told == [("shed", "a", "full"), ("begin", "b", None), ("row", "b", None)]


def test_what_waits_has_forgotten_the_user_s_credentials():
    async def play(scene):
        scene.mirror.offer(copy_of("a"))
        assert scene.mirror._waiting[0][1].headers == {}

    played(play)


def test_a_mirror_that_never_fires_on_one_route_shows():
    async def play(scene):
        for _ in range(40):
            scene.mirror.expect(CHAT, 0.5)
            scene.mirror.expect(TEXT, 0.5)
        scene.mirror.offer(copy_of("a"))
        await scene.candidate.until_asked("a")
        scene.candidate.answer("a")

    found = played(play).mirror.to_json()

    assert found["mute"] == [CHAT]
    assert found["routes"][TEXT] == {"expected": 20, "offered": 1, "sent": 1}
    assert found["sent_over_expected"] == pytest.approx(1 / 40)


def test_the_present_is_told():
    async def play(scene):
        for name in "abc":
            scene.mirror.offer(copy_of(name))
        await scene.settled()
        found = scene.mirror.to_json()
        assert (found["waiting"], found["in_flight"]) == (2, 1)
        assert found["oldest_waits_s"] >= 0
        assert json.loads(json.dumps(found)) == found

    scene = played(play, in_flight=1)

    assert scene.mirror.to_json()["oldest_waits_s"] is None
    assert {f"shed_{why}" for why in SHED} <= scene.mirror.to_json().keys()
