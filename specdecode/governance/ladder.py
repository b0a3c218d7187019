"""The way of a release to all users: from what is known, the one thing to do next.

A pure function: no clock, nothing kept, the same situation gives the same action. Who carries the
action out may be killed at any moment and ask again.

The candidate's share of users grows only by a GO of the very step the router is at, reached under
this plan, from rows of this manifest, with every signature the plan asks for, while the router
records. It shrinks to nothing by NO_GO and INVALID, for which none of that is needed. Everything
else holds.
"""

from __future__ import annotations

from specdecode.governance.ladder_actions import Action, Hold, Promote, RollBack, SetState, Stop
from specdecode.governance.ladder_facts import Judged, Place, Router, Situation
from specdecode.governance.ladder_people import not_signed
from specdecode.governance.ladder_rungs import (
    Rung,
    at,
    height,
    owner_for,
    place_of,
    rungs,
    steps_up_to,
)
from specdecode.governance.ladder_words import hold, short, some
from specdecode.governance.plan import plan_sha256
from specdecode.governance.verdict import Status
from specdecode.rollout.state import RolloutState


def next_action(known: Situation) -> Action:
    """What to do now."""
    if known.router is None:
        return hold(known, f"the router does not answer: {known.unreachable or 'no reason given'}")
    state = known.router.state
    if state.mode != "off" and state.manifest_sha256 != known.manifest_sha256:
        return hold(
            known,
            f"the router is at {at(state)} with manifest {short(state.manifest_sha256)}, not "
            f"{short(known.manifest_sha256)}: another release is under way and is left alone",
            ended=True,
        )
    place = place_of(known.plan, state)
    judged = known.judged if known.judged and known.judged.place == place else None
    if retreat := _retreat(known, state, judged):
        return retreat
    if over := _over(known, state):
        return over
    if state.mode == "full":
        return _watched(known, state, judged)
    return _upwards(known, known.router, place, judged)


def _retreat(known: Situation, state: RolloutState, judged: Judged | None) -> Action | None:
    """Back to plain decoding, if anything asks for it. Nothing has to be in order for this."""
    if state.mode == "off":
        return None
    if height(known.plan, state) is None:
        return Stop(
            reason=f"the router is at {at(state)}, which is no step of plan {known.plan.name}",
            owner=owner_for(known.plan, "stop"),
        )
    if judged is None:
        return None
    other = _about_another(known, judged)
    if other or judged.status is Status.INVALID:
        return Stop(
            reason=other or f"{judged.place}: INVALID: {some(judged.reasons)}",
            owner=owner_for(known.plan, "escalate"),
        )
    if judged.status is Status.NO_GO:
        return RollBack(
            reason=f"{judged.place}: NO_GO: {some(judged.reasons)}",
            owner=owner_for(known.plan, "roll_back"),
        )
    return None


def _over(known: Situation, state: RolloutState) -> Action | None:
    """Whoever took a release back did not do so for it to go up again by itself."""
    if known.closed is not None:
        return hold(
            known,
            f"this release was taken back: {known.closed}. Seal a new plan or make a new manifest "
            "to try again",
            ended=True,
        )
    ours = known.begun or state.manifest_sha256 == known.manifest_sha256
    if state.mode != "off" or not ours or known.begin_again:
        return None
    return hold(
        known,
        f"this release was turned off by {state.changed_by}: {state.reason}. To try the same plan "
        "and manifest again, say so (begin_again)",
        ended=True,
    )


def _about_another(known: Situation, judged: Judged) -> str | None:
    """Why a verdict is not about this release; None: it is."""
    ours = plan_sha256(known.plan)
    if judged.plan_sha256 != ours:
        return (
            f"{judged.place}: the verdict was reached under plan {short(judged.plan_sha256)}, "
            f"not {short(ours)}"
        )
    named = judged.manifest_sha256
    if named == known.manifest_sha256 or (named is None and judged.status is not Status.GO):
        return None
    return (
        f"{judged.place}: the verdict is about manifest {short(named)}, "
        f"not {short(known.manifest_sha256)}"
    )


def _watched(known: Situation, state: RolloutState, judged: Judged | None) -> Action:
    if known.unfinished is not None:
        return Promote(
            reason="a promotion was begun and is brought to its end",
            owner=known.plan.owner,
            verdict_sha256=known.unfinished,
            expected_version=state.version,
        )
    if not any(stage.name == "watch" for stage in known.plan.whole.stages):
        return hold(known, "all users have it, and the plan has no stage watch", ended=True)
    if judged is None:
        return hold(known, "all users have it; watch has no verdict yet")
    if judged.status is Status.GO:
        return hold(known, "all users have it; watch has no alarm")
    return hold(known, f"all users have it; watch: {some(judged.reasons)}")


def _upwards(
    known: Situation, router: Router, place: Place | None, judged: Judged | None
) -> Action:
    if held := _not_ready(known, router, place, judged):
        return held
    state, ladder = router.state, rungs(known.plan, known.shadow_share)
    rung = ladder[height(known.plan, state) or 0]
    if judged is None:
        return _up(known, state, rung, f"{rung} begins; it shows users nothing new")
    if judged.on_record is None:
        return hold(known, f"{judged.place}: GO, and its verdict is not on record yet")
    if waiting := not_signed(known, judged.place, judged.on_record):
        return waiting
    if rung.mode != "full":
        return _up(known, state, rung, f"{judged.place}: GO, {rung} comes next")
    return Promote(
        reason=f"{judged.place}: GO, the last step before all users",
        owner=known.plan.owner,
        verdict_sha256=judged.on_record,
        expected_version=state.version,
    )


def _not_ready(
    known: Situation, router: Router, place: Place | None, judged: Judged | None
) -> Action | None:
    """Why nothing can go up, whoever signs; None: it can."""
    if not rungs(known.plan):
        return hold(known, f"plan {known.plan.name} has no live stage", ended=True)
    if place is None and rungs(known.plan)[0].mode != "shadow":
        return hold(known, f"plan {known.plan.name} has no stage before users see it", ended=True)
    if place is not None and judged is None:
        return hold(known, f"{place} has no verdict yet")
    if judged is not None and (held := _not_shown(known, judged)):
        return held
    if missing := _missing_rows(router, place):
        return hold(known, missing)
    return None


def _missing_rows(router: Router, place: Place | None) -> str | None:
    """Why the rows are not those of the traffic; None: nothing speaks against it."""
    if not router.recording:
        why = router.why or "no reason given"
        return f"the router does not record: {why}; nothing goes up unrecorded"
    if place is not None and place.stage == "shadow" and (silence := router.silence):
        return (
            f"{place}: {silence}, so its verdict is about a part of the traffic; see health.mirror "
            "in GET /rollout for why"
        )
    return None


def _up(known: Situation, state: RolloutState, rung: Rung, reason: str) -> SetState:
    return SetState(
        reason=reason,
        owner=known.plan.owner,
        mode=rung.mode,
        share=rung.share,
        expected_version=state.version,
    )


def _not_shown(known: Situation, judged: Judged) -> Action | None:
    """Why the step has not earned the next one; None: it has."""
    place = judged.place
    if other := _about_another(known, judged):  # only with the router off; else it was stopped
        return hold(known, other, ended=True)
    if judged.status is Status.GO:
        missing = [step for step in steps_up_to(known.plan, place) if step not in judged.steps]
        if missing:
            return hold(known, f"{place}: no number of step {', '.join(missing)} was judged yet")
        return None
    why = f"{place}: {judged.status.value}: {some(judged.reasons)}"
    if judged.spent is not None:
        return Hold(
            reason=f"{why}. {judged.spent}: stay with the baseline, or seal a plan that may read "
            "more",
            owner=owner_for(known.plan, "hold"),
            ended=True,
        )
    ended = judged.status is not Status.INCONCLUSIVE  # only with the router off, as above
    return Hold(reason=why, owner=(*judged.owners, known.plan.owner)[0], ended=ended)
