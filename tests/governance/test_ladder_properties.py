"""Laws of the ladder: nothing is gained without evidence, in whatever order things happen."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.governance import Status, plan_sha256
from specdecode.governance.ladder import next_action
from specdecode.governance.ladder_actions import Promote, RollBack, SetState, Stop
from specdecode.governance.ladder_facts import Place, Situation
from specdecode.governance.ladder_rungs import exposure
from tests.governance.ladders import (
    MANIFEST,
    OTHER,
    PEOPLE,
    STEPS,
    VERDICT,
    decision,
    ladder_plan,
    situation,
    state,
    verdict_of,
)

PLANS = [
    ladder_plan(*names, signed=signed)
    for names in ((), ("canary", "watch"), ("shadow", "watch"), ("shadow", "canary"), ("canary",))
    for signed in (False, True)
]
PLACES = [Place("offline"), Place("shadow"), Place("watch"),
          *(Place("canary", f"{step:g}") for step in STEPS)]  # fmt: skip
STATES = [state("off"), state("shadow"), state("shadow", 0.3), state("full"),
          *(state("canary", share) for share in (*STEPS, 0.07)),
          *(state("canary", share, manifest_sha256=OTHER) for share in STEPS)]  # fmt: skip
DECISIONS = [decision(who, what, verdict, hours)
             for who in PEOPLE for what in ("approve", "reject", "override")
             for verdict in (VERDICT, OTHER) for hours in (1, 24 * 15)]  # fmt: skip
LIKELY = [decision("Ada"), decision("Grace")]


@st.composite
def verdicts(draw, plan):
    """A verdict, likely one that is all right."""
    odd = {
        "plan_sha256": st.sampled_from([plan_sha256(plan), OTHER]),
        "manifest_sha256": st.sampled_from([MANIFEST, OTHER, None]),
        "steps": st.frozensets(st.sampled_from(["0.05", "0.25", "0.5", "1"])),
        "on_record": st.sampled_from([VERDICT, OTHER, None]),
        "spent": st.sampled_from([None, "all of it"]),
    }
    names = draw(st.sets(st.sampled_from(sorted(odd)), max_size=2))
    fields = {name: draw(odd[name]) for name in sorted(names)}
    status = draw(st.sampled_from([Status.GO, Status.GO, *Status]))
    return verdict_of(plan, draw(st.sampled_from(PLACES)), status, **fields)


@st.composite
def situations(draw, plan=None, at=None):
    """Anything that may be known."""
    plan = plan or draw(st.sampled_from(PLANS))
    at = at or draw(st.none() | st.sampled_from(STATES))
    extra = draw(st.lists(st.sampled_from(DECISIONS), max_size=2))
    usual = LIKELY if draw(st.booleans()) else []
    return situation(
        plan,
        at,
        draw(st.none() | verdicts(plan)),
        envelopes=(*usual, *extra),
        recording=draw(st.sampled_from([True, True, False])),
        closed=draw(st.sampled_from([None, None, "NO_GO"])),
        begun=draw(st.sampled_from([False, False, True])),
        unfinished=draw(st.sampled_from([None, VERDICT])),
        proposers=draw(st.sampled_from([(), (), ("Ada",)])),
    )


def earned(known: Situation) -> bool:
    """Whether more users may see the candidate, said in other words than the ladder's."""
    judged, at = known.judged, known.router.state
    if (
        judged is None
        or judged.status is not Status.GO
        or known.closed
        or not known.router.recording
    ):
        return False
    stage = at.stage or ("offline" if "shadow" not in [s.name for s in known.plan.stages] else None)
    seen = {f"{s:g}" for s in STEPS if at.mode == "canary" and s <= at.share}
    people = {e.sha256: who for who in ("Ada", "Grace") for e in [decision(who)]}
    signed = {people.get(e.sha256) for e in known.decisions.envelopes} - known.decisions.proposers
    objections = {decision(who, what, judged.on_record, hours).sha256
                  for who in ("Ada", "Grace", "Linus") for hours in (1,)
                  for what in ("reject", "override")} if judged.on_record else set()  # fmt: skip
    asked = known.plan.approvals.required_roles
    return (
        (judged.place.stage, judged.place.step) == (stage, at.step)
        and judged.plan_sha256 == plan_sha256(known.plan)
        and judged.manifest_sha256 == MANIFEST
        and seen <= judged.steps
        and judged.on_record is not None
        and not objections & {e.sha256 for e in known.decisions.envelopes}
        and (not asked or (judged.on_record == VERDICT and signed >= {"Ada", "Grace"}))
    )


def seen_by(action, known):
    """The share of users that see the candidate after the action."""
    if isinstance(action, SetState):
        return exposure(action.mode, action.share)
    if isinstance(action, Promote):
        return 1.0
    if isinstance(action, RollBack | Stop):
        return 0.0
    at = known.router.state if known.router else state("off")
    return exposure(at.mode, at.share)


@settings(max_examples=400, deadline=None)
@given(situations())
def test_more_users_see_the_candidate_only_if_the_current_step_has_earned_it(known):
    action = next_action(known)
    before = exposure(known.router.state.mode, known.router.state.share) if known.router else 0.0

    if seen_by(action, known) > before:
        assert earned(known)
        assert known.router.state.manifest_sha256 == MANIFEST or known.router.state.mode == "off"


@settings(max_examples=200, deadline=None)
@given(situations())
def test_the_same_situation_gives_the_same_action_and_every_action_has_reason_and_owner(known):
    action = next_action(known)

    assert action == next_action(replace(known))
    assert action.reason
    assert action.owner


@settings(max_examples=200, deadline=None)
@given(situations())
def test_harm_of_this_release_at_this_step_is_always_taken_back(known):
    judged = known.judged
    if known.router is None or judged is None or known.router.state.mode == "off":
        return
    at = known.router.state
    here = (judged.place.stage, judged.place.step) == (at.stage, at.step)
    bad = judged.status in (Status.NO_GO, Status.INVALID)
    if here and bad and at.manifest_sha256 == MANIFEST:
        assert isinstance(next_action(known), RollBack | Stop)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_sequence_of_looks_skips_a_step(data):
    plan = data.draw(st.sampled_from(PLANS[:2]))
    at, passed = state("off", version=0), []
    for _ in range(data.draw(st.integers(1, 12))):
        known = data.draw(situations(plan, at))
        action = next_action(known)
        if isinstance(action, RollBack | Stop):
            at = state("off", version=at.version + 1)
            passed = []
        elif isinstance(action, SetState):
            assert action.expected_version == at.version
            at = state(action.mode, action.share, version=at.version + 1)
            passed.append((action.mode, action.share))
        elif isinstance(action, Promote) and at.mode != "full":
            assert passed == [("shadow", 1.0), *(("canary", step) for step in STEPS)]
            at = state("full", version=at.version + 1)
