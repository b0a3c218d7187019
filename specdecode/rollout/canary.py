"""Answers of the candidate, with the baseline behind it until the first byte has gone out."""

from __future__ import annotations

from time import monotonic

from aiohttp import web

from specdecode.rollout.ask import Ask, Call
from specdecode.rollout.baseline import CLIENT_LEFT, Baseline
from specdecode.rollout.candidate import Begun, Failed, begin
from specdecode.rollout.headers import ours, to_client
from specdecode.rollout.leg import Leg
from specdecode.rollout.limits import CandidateLimits
from specdecode.rollout.metrics import Outcome, RouterMetrics
from specdecode.rollout.recording import Recorder
from specdecode.rollout.relay import CutError, relay_stream, send_whole
from specdecode.rollout.settings import RouterSettings
from specdecode.rollout.upstream import Upstream
from specdecode.workload.load.faults import CLIENT_ERROR, Fault


class Canary:
    """Lets the candidate answer users.

    Args:
        settings: how long to wait.
        candidate: under judgement.
        baseline: answers where the candidate does not.
        recorder: keeps rows.
        limits: of the candidate.
        metrics: counts.
    """

    def __init__(
        self,
        settings: RouterSettings,
        *,
        candidate: Upstream,
        baseline: Baseline,
        recorder: Recorder,
        limits: CandidateLimits,
        metrics: RouterMetrics,
    ) -> None:
        self._settings, self._candidate, self._baseline = settings, candidate, baseline
        self._recorder, self._limits, self._metrics = recorder, limits, metrics

    async def answer(self, ask: Ask) -> web.StreamResponse:
        """From the candidate; from the baseline if that fails before its first byte.

        Raises:
            ClientGoneError: nobody is there to read it.
        """
        if (why := self._limits.enter()) is not None:
            self._metrics.spilled(why)
            return await self._baseline.answer(ask.call, None)
        leg = self._recorder.leg(ask, self._candidate.arm)
        try:
            found = None if leg is None else await self._candidate_reply(ask, leg)
        finally:
            self._limits.leave()
        if leg is None or found is None:
            return await self._baseline.answer(ask.call, None)
        if isinstance(found, Failed):
            return await self._instead(ask, leg, found)
        return found

    async def _candidate_reply(self, ask: Ask, leg: Leg) -> web.StreamResponse | Failed:
        arm, began = self._candidate.arm, monotonic()
        outcome: Outcome = "cancelled"
        begun: Begun | Failed | None = None
        self._metrics.in_flight(arm, 1)
        try:
            begun = await self._begin(ask, leg)
            if isinstance(begun, Failed):
                outcome = "client_error" if begun.refused else "failed"
                return begun
            self._metrics.first_byte(arm, monotonic() - began)
            outcome = "cancelled"
            response = await self._pass_on(ask.call, begun, leg)
        except CutError as cut:
            outcome = "cut"
            leg.ended(str(cut.fault))
            self._went(leg)
            return cut.response
        else:
            outcome = "ok"
            leg.ended()
            self._went(leg)
            return response
        finally:
            if not isinstance(begun, Failed):
                leg.ended(CLIENT_LEFT)  # unless it has ended by itself
                leg.keep()
            self._metrics.in_flight(arm, -1)
            self._metrics.answered(arm, outcome)
            if isinstance(begun, Begun):
                begun.reply.close()

    async def _begin(self, ask: Ask, leg: Leg) -> Begun | Failed:
        try:
            return await begin(ask, self._candidate, leg, self._settings.first_byte_s)
        except Exception as error:  # noqa: BLE001 - a user waits for an answer
            self._recorder.broke("candidate", error)
            leg.drop(f"the router failed: {type(error).__name__}: {error}")
            return Failed(Fault(CLIENT_ERROR, "the router failed"))

    async def _pass_on(self, call: Call, begun: Begun, leg: Leg) -> web.StreamResponse:
        reply = begun.reply
        headers = to_client(reply.headers, ours(call.request_id, self._candidate.arm))
        if begun.rest is None:
            await leg.on_record()
            return await send_whole(call.request, reply, headers, begun.first)
        return await relay_stream(
            call.request,
            reply,
            headers,
            leg,
            self._settings.stall_s,
            rest=begun.rest,
            first=begun.first,
        )

    async def _instead(self, ask: Ask, leg: Leg, failed: Failed) -> web.StreamResponse:
        """The baseline answers; the candidate's failure is on record all the same.

        A refusal is no failure, unless the baseline accepts the request.
        """
        leg.ended(failed.error)
        await leg.on_record()
        if not failed.refused:
            leg.keep()
            self._went(leg)
        self._metrics.retried()
        try:
            response = await self._baseline.answer(ask.call, None, retried=True)
            leg.keep(accepted_elsewhere=response.status < 400)
        finally:
            leg.keep()
        if failed.refused and response.status < 400:
            self._went(leg)
        return response

    def _went(self, leg: Leg) -> None:
        """The breaker learns how it went."""
        breaker = self._limits.breaker
        if leg.watch.error is None:
            breaker.succeeded()
        else:
            breaker.failed()
