"""One look at a release: bring to its end what was begun, judge, and do the one thing that is next.

A generator that stops before and after everything that is written or changed, so that it can be
ended at any such moment, as a crash would, and begun again. `run` goes through to the end.

The router is the truth about traffic, the journal about intentions. "decided" is on disk before the
router is asked, "done" after it has answered. Between the two nobody knows, and the next look asks
the router: a step up that did not arrive is given up and judged anew; a way back is gone again.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from pipelines.flows.acts import BROKEN, carry_out, settle
from pipelines.flows.history import history_of
from pipelines.flows.release import Release
from pipelines.flows.router_client import RouterUnreachableError
from specdecode.governance.ladder import next_action
from specdecode.governance.ladder_actions import (
    Action,
    AskApproval,
    Hold,
    Promote,
    RollBack,
    SetState,
    Stop,
)
from specdecode.governance.ladder_facts import Decisions, Judged, Place, Router, Situation
from specdecode.governance.ladder_rungs import place_of
from specdecode.governance.verdict import Verdict
from specdecode.rollout.state import Mode


@dataclass(frozen=True)
class Look:
    """What one look came to.

    Attributes:
        action: what was next.
        place: the step the router was at; None: it did not answer, or no verdict was needed.
        judged: what its verdict means for the ladder, if there is one.
        verdict: the same with every number; None of a stage that was judged elsewhere.
        carried_out: whether the action was done; False where it was not this flow's to do.
        refused: signatures that arrived and were no good, with why.
    """

    action: Action
    place: Place | None = None
    judged: Judged | None = None
    carried_out: bool = False
    refused: tuple[str, ...] = ()
    verdict: Verdict | None = None

    @property
    def ended(self) -> bool:
        """Whether looking again is of no use to the same flow."""
        if isinstance(self.action, Hold):
            return self.action.ended
        if isinstance(self.action, AskApproval):
            return False
        if isinstance(self.action, SetState):
            return not self.carried_out
        return True

    @property
    def arrived(self) -> bool:
        """Whether all users have it, and no promotion waits for its end: there is no step up."""
        here = self.place is not None and self.place.stage == "watch"
        return here and isinstance(self.action, Hold)

    @property
    def again(self) -> bool:
        """Whether something changed, so that the next look need not wait."""
        return isinstance(self.action, SetState) and self.carried_out


def run(steps: Generator[str, None, Look]) -> Look:
    """Goes through a look from its beginning to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Look = end.value
            return found


def look(release: Release, may: frozenset[Mode]) -> Generator[str, None, Look]:
    """One look, under the journal's lock.

    Args:
        release: what is looked at.
        may: modes that the flow may set beside "off"; a step up that leads elsewhere is another
            flow's. Back it always may.

    Yields:
        The name of the moment: what was just done.

    Returns:
        What it came to.
    """
    with release.records.journal.alone():
        yield "begun"
        trouble: Exception | None = None
        try:
            try:
                yield from settle(release)
            except BROKEN as error:
                trouble = error  # it must not keep harm from being taken back
            return (yield from _onwards(release, may, trouble))
        except RouterUnreachableError as error:
            return Look(Hold(reason=str(error), owner=release.plan.owner))


def _onwards(
    release: Release, may: frozenset[Mode], trouble: Exception | None
) -> Generator[str, None, Look]:
    router = release.router.read()
    place, judged, verdict = yield from _judge(release, router)
    retreat = next_action(_at_first_sight(release, router, judged))
    if isinstance(retreat, RollBack | Stop):
        release.show(place, retreat, verdict)
        yield from carry_out(release, place, retreat, verdict)
        return Look(retreat, place, judged, carried_out=True, verdict=verdict)
    if trouble is not None:
        raise trouble
    refused: list[str] = []
    known = _situation(release, router, judged)
    if judged is not None and judged.on_record is not None:
        folders = (release.records.folder, release.records.inbox)
        kept = release.records.find_signed(judged.on_record)
        if kept is not None:
            release.people.note(kept.verdict)
            yield "noted"
        refused = release.people.collect(folders, judged.on_record)
        known = _situation(release, router, judged, on=judged.on_record)
        yield "people asked"
    action = next_action(known)
    found = Look(action, place, judged, refused=tuple(refused), verdict=verdict)
    if isinstance(action, AskApproval):
        yield from _ask(release, place, action, verdict)
        return found
    if isinstance(action, Hold):
        yield from _say_once(release, place, action, verdict)
        return found
    if not _allowed(action, may):
        return found
    done = yield from carry_out(release, place, action, verdict)
    return replace(found, action=done or action, carried_out=done is None)


def _judge(
    release: Release, router: Router
) -> Generator[str, None, tuple[Place | None, Judged | None, Verdict | None]]:
    place = place_of(release.plan, router.state)
    ours = router.state.manifest_sha256 == release.manifest_sha256 or router.state.mode == "off"
    named = [stage.name for stage in release.plan.whole.stages]
    if place is None or not ours or place.stage not in named:
        return place, None, None
    judged, verdict = release.judge.look(place, release.clock())
    yield "judged"
    return place, judged, verdict


def _at_first_sight(release: Release, router: Router, judged: Judged | None) -> Situation:
    """What router and rows say. It is enough for the way back, and nothing else may hinder that."""
    return Situation(
        plan=release.plan,
        manifest_sha256=release.manifest_sha256,
        now=release.clock(),
        router=router,
        judged=judged,
    )


def _situation(
    release: Release, router: Router, judged: Judged | None, on: str | None = None
) -> Situation:
    history = history_of(release.records.journal.lines())
    return Situation(
        plan=release.plan,
        manifest_sha256=release.manifest_sha256,
        now=release.clock(),
        router=router,
        judged=judged,
        closed=history.closed,
        begun=history.begun,
        begin_again=release.begin_again,
        unfinished=history.promoting,
        shadow_share=release.shadow_share,
        decisions=Decisions() if on is None else release.people.on(on),
    )


def _allowed(action: Action, may: frozenset[Mode]) -> bool:
    if isinstance(action, SetState):
        return action.mode in may
    return isinstance(action, Promote) and "full" in may


def _ask(
    release: Release, place: Place | None, action: AskApproval, verdict: Verdict | None
) -> Generator[str, None, None]:
    """Tells people once for each verdict; the folder is looked into every time."""
    journal = release.records.journal
    if action.verdict_sha256 in history_of(journal.lines()).asked:
        return
    release.tell(place, action, verdict)
    yield "told"
    journal.write(
        "asked",
        "" if place is None else release.records.key(place),
        verdict_sha256=action.verdict_sha256,
        roles=list(action.roles),
    )
    yield "asked"


def _say_once(
    release: Release, place: Place | None, action: Hold, verdict: Verdict | None
) -> Generator[str, None, None]:
    """Tells people of a hold that only they can end, once."""
    journal = release.records.journal
    if not action.ended or history_of(journal.lines()).held == action.reason:
        return
    release.tell(place, action, verdict)
    yield "told"
    key = "" if place is None else release.records.key(place)
    journal.write("held", key, reason=action.reason, owner=action.owner)
    yield "held"
