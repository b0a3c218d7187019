"""A copy starts once the user's own request is on its way, and never before."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from specdecode.rollout.ask import Asks, Call
from specdecode.rollout.assignment import Assignment
from specdecode.rollout.limits import CandidateLimits
from specdecode.rollout.recording import Recorder
from specdecode.rollout.relay import ClientGoneError
from specdecode.rollout.settings import Limits, RouterSettings, Server
from specdecode.rollout.state import RolloutState
from specdecode.rollout.traffic import Traffic
from specdecode.rollout.upstream import Upstream
from specdecode.workload.load.faults import Fault
from tests.rollout.mirror_scene import CHAT, Candidate, FakeSpool, Scene, copy_of, played
from tests.wire.replies import json_reply
from tests.wire.server import WireServer

SHADOW = RolloutState(version=1, mode="shadow", share=1.0, manifest_sha256="a" * 64)
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


class FakeBaseline:
    """Stands where a user's request is until the test lets it go on."""

    arm = "plain"

    def __init__(self):
        loop = asyncio.get_running_loop()
        self.came, self.goes_out, self.answers = (loop.create_future() for _ in range(3))

    async def answer(self, _call, leg):
        self.came.set_result(leg)
        try:
            await self.goes_out
            leg.sent()
            leg.sent()  # sent again, as after a refusal
            await self.answers
            return web.Response(text="yes")
        finally:
            leg.ended()


class AnyCandidate(Candidate):
    """Answers whatever it is asked."""

    async def __call__(self, copy):
        self.answer(copy.asked["prompt_id"])
        return await super().__call__(copy)


def shadow_traffic(scene, baseline):
    return Traffic(
        baseline=baseline,
        canary=None,
        state=lambda: SHADOW,
        asks=Asks(Assignment(b"a salt of the tests")),
        recorder=Recorder(scene.spool, None, lambda where: None),
        limits=CandidateLimits(Limits()),
        metrics=None,
        mirror=scene.mirror,
        candidate_arm="block",
    )


def shadowing(play):
    async def run():
        async with Scene() as scene:
            scene.mirror._send = scene.candidate = AnyCandidate()
            baseline = FakeBaseline()
            traffic = shadow_traffic(scene, baseline)
            request = make_mocked_request("POST", CHAT)
            call = Call(request, json.dumps(BODY).encode(), "an-id")
            answering = asyncio.create_task(traffic.answer(call))
            await baseline.came
            await scene.settled()
            await play(scene, baseline, answering)
            await asyncio.wait([answering])
        return scene

    return asyncio.run(asyncio.wait_for(run(), 120))


def test_no_work_is_done_for_a_copy_before_the_request_is_away():
    async def play(scene, baseline, answering):
        assert scene.mirror.counts.offered[CHAT] == 1
        assert scene.candidate.asked == {}
        assert [kind for kind, *_ in scene.spool.told] == ["queued", "begin"]

        baseline.goes_out.set_result(None)
        await scene.settled()

        assert len(scene.candidate.asked) == 1
        assert not answering.done()  # and it does not wait for the answer
        baseline.answers.set_result(None)

    scene = shadowing(play)

    # The pair was promised before the user's request began: what a crash leaves is a pair as well.
    kinds = [kind for kind, *_ in scene.spool.told]
    assert kinds == ["queued", "begin", "begin", "row"]
    assert scene.mirror.counts.ended == 1


@pytest.mark.parametrize("error", [ClientGoneError("left"), OSError("broken")], ids=repr)
def test_a_request_that_never_got_away_lets_its_copy_go_all_the_same(error):
    """A baseline that fails where the candidate answers has to show in the pairs."""

    async def play(scene, baseline, answering):
        baseline.goes_out.set_exception(error)
        await asyncio.wait([answering])
        await scene.settled()
        assert answering.exception() is error

    assert shadowing(play).mirror.counts.ended == 1


def test_a_user_who_is_cancelled_lets_the_copy_go():
    async def play(scene, _baseline, answering):
        answering.cancel()
        await asyncio.wait([answering])
        await scene.settled()

    assert shadowing(play).mirror.counts.ended == 1


def test_without_a_row_of_the_baseline_no_copy_hangs():
    class Broken(FakeSpool):
        def begin(self, asked):
            if asked["arm"] == "plain":
                raise RuntimeError("broken")
            super().begin(asked)

    async def run():
        async with Scene() as scene:
            scene.mirror._spool = scene.spool = Broken()
            scene.mirror._send = scene.candidate = AnyCandidate()
            went = []

            class Baseline:
                arm = "plain"

                async def answer(self, _call, leg):
                    went.append(leg)
                    return web.Response(text="yes")

            traffic = shadow_traffic(scene, Baseline())
            call = Call(make_mocked_request("POST", CHAT), json.dumps(BODY).encode(), "an-id")
            await traffic.answer(call)
            await scene.settled()
            assert went == [None]
            assert len(scene.candidate.asked) == 1

    asyncio.run(asyncio.wait_for(run(), 120))


def test_a_mirror_that_stops_sheds_what_still_waits_for_the_users_request():
    async def play(scene):
        from dataclasses import replace

        after = asyncio.get_running_loop().create_future()
        assert scene.mirror.offer(replace(copy_of("a", partner="p"), after=after))
        await scene.settled()
        assert scene.candidate.asked == {}
        await scene.mirror.stop(0)
        assert not after.cancelled()

    scene = played(play)

    assert scene.spool.of("shed") == [("a", "stopped")]
    assert scene.spool.retracted == ["p"]


def upstream(url, folder):
    settings = RouterSettings(
        baseline=Server("plain", url), candidate=Server("block", url), state_dir=folder
    )
    return Upstream(settings.baseline, settings, lambda arm: None)


def test_sent_is_told_as_the_body_goes_out_also_over_a_connection_that_is_open(tmp_path):
    told = []

    async def run(url):
        server = upstream(url, tmp_path)
        for number in range(2):
            reply = await server.ask(
                "POST", CHAT, CIMultiDict(), b"{}", lambda n=number: told.append(n)
            )
            assert told == list(range(number + 1))
            await reply.read()
        await server.close()

    with WireServer({("POST", CHAT): json_reply({})}) as wire:
        asyncio.run(run(wire.url))
        assert [request.body for request in wire.requests] == [b"{}", b"{}"]


def test_sent_is_not_told_where_there_is_no_server(tmp_path):
    told = []

    async def run():
        server = upstream("http://127.0.0.1:9", tmp_path)
        with pytest.raises(Fault):
            await server.ask("POST", CHAT, CIMultiDict(), b"{}", lambda: told.append(1))
        await server.close()

    asyncio.run(run())
    assert told == []
