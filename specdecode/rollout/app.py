"""Put the parts of a router together. Where one of them cannot be had, users do not notice."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from aiohttp import web

from specdecode.errors import EvidenceError, UserError
from specdecode.rollout.ask import Asks
from specdecode.rollout.assignment import Assignment, salt_of
from specdecode.rollout.baseline import Baseline
from specdecode.rollout.bodies import Bodies
from specdecode.rollout.canary import Canary
from specdecode.rollout.comparing import Comparing
from specdecode.rollout.control import Control
from specdecode.rollout.copies import CopyRules
from specdecode.rollout.heads import Heads
from specdecode.rollout.health import Health
from specdecode.rollout.idle import Idleness
from specdecode.rollout.limits import CandidateLimits
from specdecode.rollout.metrics import RouterMetrics, numbers_of
from specdecode.rollout.mirror import Mirror
from specdecode.rollout.passing import Passing
from specdecode.rollout.recording import Recorder
from specdecode.rollout.routes import Routes
from specdecode.rollout.settings import RouterSettings
from specdecode.rollout.shadow import CopySender
from specdecode.rollout.spool import Spool
from specdecode.rollout.state import RolloutState
from specdecode.rollout.store import StateStore
from specdecode.rollout.traffic import Traffic
from specdecode.rollout.upstream import Upstream

log = logging.getLogger("specdecode.rollout")

_QUIET_S: Final = 0.2
_AGAIN_S: Final = 1.0


class Router:
    """A router's parts; made, used and closed in one event loop.

    Args:
        settings: everything that can be set.

    Attributes:
        store: the state.
        metrics: counts.
        heads: looks after new connections.

    Raises:
        ConfigError: the state's folder or the salt cannot be used.
        UserError: another router has the folder.
    """

    def __init__(self, settings: RouterSettings) -> None:
        self.settings = settings
        self.store = StateStore(settings.state_dir)
        try:
            salt = salt_of(settings.salt_file or settings.state_dir / "salt")
        except BaseException:
            self.store.close()
            raise
        self.heads = Heads(settings.stall_s)
        self.metrics = RouterMetrics(self._numbers)
        self._spool, failure = _spool(settings)
        self._bodies = _bodies(settings)
        self._recorder = Recorder(
            self._spool,
            failure,
            self.metrics.bookkeeping_failed,
            keep_ids=settings.token_ids,
            ask_usage=settings.ask_usage,
            bodies=self._bodies,
            patience_s=settings.record_s,
        )
        self._limits = CandidateLimits(settings.limits)
        self._baseline = Upstream(settings.baseline, settings, self.metrics.asked_again)
        self._candidate = Upstream(settings.candidate, settings, self.metrics.asked_again)
        self._idleness = Idleness(_QUIET_S, self._is_idle_now)
        self._pairs: Comparing | None = None
        self._mirror = None if self._spool is None else self._made_mirror(self._spool, salt)
        self._health = Health(
            self._recorder,
            spool=self._spool,
            limits=self._limits,
            mirror=self._mirror,
            pairs=self._pairs,
            bodies=self._bodies,
        )
        self.routes = Routes(
            settings,
            traffic=self._traffic(Asks(Assignment(salt))),
            passing=Passing(self._baseline, settings.stall_s),
            control=Control(self.store, settings.token, self._health.to_json, self._changed),
            state=self._state,
            metrics=self.metrics,
            heads=self.heads,
        )
        self._sending: asyncio.Task[None] | None = None
        self._cutting: asyncio.Task[None] | None = None

    def app(self) -> web.Application:
        """The application."""
        return self.routes.app()

    def start(self) -> None:
        """Begin to send copies."""
        if self._mirror is not None:
            self._sending = asyncio.create_task(self._send(self._mirror), name="mirror")

    async def stop_copies(self) -> None:
        """Finish the copies that are under way; the rest is shed."""
        if self._mirror is not None:
            await self._mirror.stop(self.settings.finish_s)

    def cut_copies(self) -> None:
        """Do not wait for the copies that are under way."""
        if self._mirror is not None:
            self._cutting = asyncio.create_task(self._mirror.stop(0.0))

    async def close(self) -> None:
        """Write down what is left, and let go of everything."""
        if self._cutting is None:
            await self.stop_copies()
        else:
            await self._cutting
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        await self._baseline.close()
        await self._candidate.close()
        if self._spool is not None:
            await asyncio.to_thread(self._spool.close)
        if self._bodies is not None:
            await asyncio.to_thread(self._bodies.close)
        self.store.close()

    async def _send(self, mirror: Mirror) -> None:
        """Send copies to the end; a fault of the mirror is told, and is not its end."""
        while True:
            try:
                return await mirror.run()
            except Exception as error:  # noqa: BLE001 - copies must not end by a fault of ours
                self._recorder.broke("mirror", error)
                await asyncio.sleep(_AGAIN_S)

    def _traffic(self, asks: Asks) -> Traffic:
        settings = self.settings
        baseline = Baseline(self._baseline, self.metrics, self._idleness, settings.stall_s)
        canary = Canary(
            settings,
            candidate=self._candidate,
            baseline=baseline,
            recorder=self._recorder,
            limits=self._limits,
            metrics=self.metrics,
        )
        return Traffic(
            baseline=baseline,
            canary=canary,
            state=self._state,
            asks=asks,
            recorder=self._recorder,
            limits=self._limits,
            metrics=self.metrics,
            mirror=self._mirror,
            candidate_arm=settings.candidate.arm,
        )

    def _made_mirror(self, spool: Spool, salt: bytes) -> Mirror:
        settings = self.settings
        self._pairs = Comparing(spool, self._recorder)
        sender = CopySender(
            self._candidate,
            self._limits,
            self._pairs.add,
            keep_ids=settings.token_ids,
            bodies=self._bodies,
        )
        return Mirror(
            sender.send,
            spool,
            in_flight=settings.shadow_concurrency,
            queue=settings.shadow_queue,
            when=settings.shadow_when,
            is_idle=self._idleness.is_idle,
            deadline_s=settings.idle_s,
            rules=CopyRules(salt=salt, key=settings.candidate.key, ask_usage=settings.ask_usage),
        )

    def _state(self) -> RolloutState:
        return self.store.current

    def _changed(self, _state: RolloutState) -> None:
        """Copies that wait were meant for another state."""
        if self._mirror is not None:
            self._mirror.shed_waiting("state")

    def _is_idle_now(self) -> None:
        """After every request that leaves none behind; seldom does a copy wait for that."""
        if self._mirror is not None and self._mirror.waiting:
            self._mirror.wake()

    def _numbers(self) -> dict[str, float]:
        state = self.store.current
        told: dict[str, Any] = {"version": state.version, "share": state.share}
        found = numbers_of("state", told)
        for mode in ("off", "shadow", "canary", "full"):
            found[f"mode_{mode}"] = float(state.mode == mode)
        health = self._health.to_json()
        parts = ("spool", "candidate", "mirror")
        found |= {name: float(health[name]) for name in ("recording", "ahead_of_record")}
        for part in parts:
            found |= numbers_of(part, health[part])
        return found


def _spool(settings: RouterSettings) -> tuple[Spool | None, str | None]:
    """The spool, or why there is none: then the router is a plain proxy, and says so."""
    folder = settings.state_dir / "spool"
    try:
        return Spool(folder), None
    except (OSError, EvidenceError, UserError) as error:
        log.warning("%s: no rows can be kept, so the candidate gets nothing: %s", folder, error)
        return None, f"{type(error).__name__}: {error}"


def _bodies(settings: RouterSettings) -> Bodies | None:
    """What keeps texts, if somebody asked for that and it can be had."""
    if not settings.bodies:
        return None
    folder = settings.state_dir / "bodies"
    try:
        return Bodies(folder, settings.bodies)
    except OSError as error:
        log.warning("%s: no bodies can be kept: %s", folder, error)
        return None
