"""Who answers a request: the baseline, or the candidate with the baseline behind it.

Whatever breaks in the router's own work, the user is answered by the baseline as if nothing were
under judgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from specdecode.rollout.ask import Ask, Asks, Call
from specdecode.rollout.baseline import Baseline
from specdecode.rollout.canary import Canary
from specdecode.rollout.limits import CandidateLimits
from specdecode.rollout.metrics import RouterMetrics
from specdecode.rollout.mirror import Mirror
from specdecode.rollout.observation import ReplyWatch
from specdecode.rollout.recording import Recorder
from specdecode.rollout.shadow import PairedCopy
from specdecode.rollout.state import RolloutState


class Traffic:
    """Answers the two routes under judgement.

    Args:
        baseline: answers whatever happens.
        canary: answers a share, if that is the mode.
        state: the state in force.
        asks: reads requests.
        recorder: keeps rows.
        limits: of the candidate.
        metrics: counts.
        mirror: gets copies; None if there can be no rows.
        candidate_arm: what rows of copies call their arm.
    """

    def __init__(
        self,
        *,
        baseline: Baseline,
        canary: Canary,
        state: Callable[[], RolloutState],
        asks: Asks,
        recorder: Recorder,
        limits: CandidateLimits,
        metrics: RouterMetrics,
        mirror: Mirror | None,
        candidate_arm: str,
    ) -> None:
        self._baseline, self._canary, self._mirror = baseline, canary, mirror
        self._state, self._asks, self._recorder = state, asks, recorder
        self._limits, self._metrics = limits, metrics
        self._candidate_arm = candidate_arm

    async def answer(self, call: Call) -> web.StreamResponse:
        """The reply to a request.

        Raises:
            ClientGoneError: nobody is there to read it.
        """
        ask = self._judged(call)
        if ask is None:
            return await self._baseline.answer(call, None)
        if ask.state.mode == "shadow":
            return await self._shadow(ask)
        if not ask.subject.within(ask.state.share):
            return await self._baseline.answer(call, self._recorder.leg(ask, self._baseline.arm))
        return await self._canary.answer(ask)

    def _judged(self, call: Call) -> Ask | None:
        """The request under judgement; None where nothing is, or where it cannot be recorded."""
        try:
            state = self._state()
            if state.mode == "off" or not self._recorder.recording:
                return None
            return self._asks.judged(call, state)
        except Exception as error:  # noqa: BLE001 - a user waits for an answer
            self._recorder.broke("assignment", error)
            return None

    async def _shadow(self, ask: Ask) -> web.StreamResponse:
        """From the baseline; the copy starts once the user's own request is on its way."""
        loop = asyncio.get_running_loop()
        original: asyncio.Future[ReplyWatch | None] = loop.create_future()
        away: asyncio.Future[None] = loop.create_future()

        def sent() -> None:
            if not away.done():
                away.set_result(None)

        copied = self._copied(ask, original, away)
        leg = None if copied is None else self._recorder.leg(ask, self._baseline.arm, copied, sent)
        if leg is None:
            original.set_result(None)  # at once: the copy has nothing to be compared with
        try:
            return await self._baseline.answer(ask.call, leg)
        finally:
            sent()  # whatever became of it: a copy that was taken is half of a pair
            if leg is not None and not original.done():
                original.set_result(leg.watch)

    def _copied(
        self,
        ask: Ask,
        original: asyncio.Future[ReplyWatch | None],
        away: asyncio.Future[None],
    ) -> str | None:
        """The id of the copy's row; None if there is no copy, and so no pair to be judged."""
        mirror = self._mirror
        if mirror is None:
            return None
        try:
            path = ask.call.request.path
            mirror.expect(path, ask.state.share)
            if not ask.subject.within(ask.state.share):
                return None
            if (why := self._limits.enter(counted=False)) is not None:
                self._metrics.spilled(why)
                mirror.withheld(ask.asked(self._candidate_arm), f"the candidate's limits: {why}")
                return None
            copy = PairedCopy(
                path=path,
                body=ask.call.body,
                headers=dict(ask.call.request.headers),
                asked=ask.asked(self._candidate_arm),
                streaming=ask.streaming,
                partner=str(ask.asked(self._baseline.arm)["request_id"]),
                parsed=ask.body,
                original=original,
                after=away,
            )
            return str(copy.asked["request_id"]) if mirror.offer(copy) else None
        except Exception as error:  # noqa: BLE001 - a user waits for an answer
            self._recorder.broke("mirror", error)
            return None
