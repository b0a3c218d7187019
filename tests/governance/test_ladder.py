"""Rules of the ladder, one by one."""

from __future__ import annotations

import pytest

from specdecode.governance import Status
from specdecode.governance.ladder import next_action
from specdecode.governance.ladder_actions import (
    AskApproval,
    Hold,
    Promote,
    RollBack,
    SetState,
    Stop,
)
from specdecode.governance.ladder_facts import Place, stage_key
from specdecode.governance.ladder_rungs import Rung, rungs
from tests.governance.ladders import (
    MANIFEST,
    OTHER,
    VERDICT,
    decision,
    ladder_plan,
    situation,
    state,
    verdict_of,
)
from tests.governance.plans import small_plan

PLAN, SIGNED = ladder_plan(), ladder_plan(signed=True)
FIRST = Place("canary", "0.05")
AT_FIRST = state("canary", 0.05)
BOTH = (decision("Ada"), decision("Grace"))


def test_the_rungs_are_the_plans_stages_and_steps_and_all_users_come_last():
    assert [str(rung) for rung in rungs(PLAN)] == [
        "shadow", "canary 0.05", "canary 0.25", "canary 0.5", "full"]  # fmt: skip
    assert rungs(ladder_plan("watch")) == [Rung("full", 1.0)]
    assert rungs(small_plan()) == []


def test_a_shadow_begins_without_a_verdict_as_users_see_nothing_of_it():
    action = next_action(situation(PLAN, state("off"), shadow_share=0.2))

    assert isinstance(action, SetState)
    assert (action.mode, action.share, action.expected_version) == ("shadow", 0.2, 3)


@pytest.mark.parametrize(
    ("at", "place", "goes_to"),
    [
        (state("shadow"), Place("shadow"), ("canary", 0.05)),
        (state("canary", 0.05), FIRST, ("canary", 0.25)),
        (state("canary", 0.25), Place("canary", "0.25"), ("canary", 0.5)),
    ],
    ids=["shadow", "first", "second"],
)
def test_go_leads_to_the_next_step(at, place, goes_to):
    action = next_action(situation(PLAN, at, verdict_of(PLAN, place)))

    assert isinstance(action, SetState)
    assert (action.mode, action.share) == goes_to


def test_go_of_the_last_step_promotes():
    judged = verdict_of(PLAN, Place("canary", "0.5"))
    action = next_action(situation(PLAN, state("canary", 0.5), judged))

    assert action == Promote(
        reason="canary 0.5: GO, the last step before all users",
        owner="a test",
        verdict_sha256=VERDICT,
        expected_version=3,
    )


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"status": Status.INCONCLUSIVE}, Hold),
        ({"status": Status.NO_GO}, RollBack),
        ({"status": Status.INVALID}, Stop),
        ({"plan_sha256": OTHER}, Stop),
        ({"manifest_sha256": OTHER}, Stop),
        ({"manifest_sha256": None}, Stop),
        ({"status": Status.INCONCLUSIVE, "manifest_sha256": None}, Hold),
        ({"place": Place("canary", "0.25")}, Hold),
        ({"place": Place("shadow")}, Hold),
        ({"steps": frozenset()}, Hold),
        ({"steps": frozenset({"0.25"})}, Hold),
        ({"on_record": None}, Hold),
        ({"spent": "the window is over"}, SetState),
        ({"status": Status.INCONCLUSIVE, "spent": "the window is over"}, Hold),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "-".join(map(str, value)),
)  # fmt: skip
def test_what_a_verdict_of_the_first_step_leads_to(fields, kind):
    fields = {"status": Status.GO} | fields
    judged = verdict_of(PLAN, fields.pop("place", FIRST), fields.pop("status"), **fields)

    assert type(next_action(situation(PLAN, AT_FIRST, judged))) is kind


def test_a_spent_stage_ends_the_wait_and_says_what_to_do():
    judged = verdict_of(PLAN, FIRST, Status.INCONCLUSIVE, spent="its window is over")
    action = next_action(situation(PLAN, AT_FIRST, judged))

    assert isinstance(action, Hold)
    assert action.ended
    assert "its window is over: stay with the baseline" in action.reason


def test_nothing_goes_up_while_the_router_does_not_record_and_harm_still_rolls_back():
    go, bad = verdict_of(PLAN, FIRST), verdict_of(PLAN, FIRST, Status.NO_GO)
    deaf = {"recording": False, "why": "the disk is full"}

    held = next_action(situation(PLAN, AT_FIRST, go, **deaf))
    assert isinstance(held, Hold)
    assert "the disk is full" in held.reason
    assert isinstance(next_action(situation(PLAN, AT_FIRST, bad, **deaf)), RollBack)
    assert isinstance(next_action(situation(PLAN, state("off"), **deaf)), Hold)


SILENT = [
    ({"mute": ("/v1/completions",)}, "no copy was made of any request to /v1/completions"),
    ({"sent_over_expected": 0.3}, "only 30% of the copies"),
    ({"sent_over_expected": 0.0}, "only 0% of the copies"),
    ({"sent_over_expected": float("nan")}, "of the copies that were expected"),
]


@pytest.mark.parametrize(("health", "said"), SILENT, ids=["mute", "few", "none", "nan"])
def test_a_mirror_that_is_silent_is_no_success_and_harm_still_rolls_back(health, said):
    # Health alone showed it: a verdict on the other routes' rows went up.
    at, place = state("shadow"), Place("shadow")
    go, bad = verdict_of(PLAN, place), verdict_of(PLAN, place, Status.NO_GO)

    assert not isinstance(next_action(situation(PLAN, at, go)), Hold)
    held = next_action(situation(PLAN, at, go, **health))
    assert isinstance(held, Hold)
    assert not held.ended
    assert said in held.reason
    assert isinstance(next_action(situation(PLAN, at, bad, **health)), RollBack)


def test_a_canary_does_not_ask_how_the_mirror_was():
    go = verdict_of(PLAN, FIRST)

    for health, _ in SILENT:
        assert next_action(situation(PLAN, AT_FIRST, go, **health)) == next_action(
            situation(PLAN, AT_FIRST, go)
        )


def test_a_router_that_does_not_answer_holds():
    action = next_action(situation(PLAN, None, verdict_of(PLAN, FIRST), unreachable="refused"))

    assert isinstance(action, Hold)
    assert "refused" in action.reason


def test_another_release_on_the_router_is_left_alone_whatever_its_verdict():
    at = state("canary", 0.05, manifest_sha256=OTHER)
    action = next_action(situation(PLAN, at, verdict_of(PLAN, FIRST, Status.NO_GO)))

    assert isinstance(action, Hold)
    assert action.ended


def test_a_share_that_the_plan_does_not_have_is_stopped():
    action = next_action(situation(PLAN, state("canary", 0.07), verdict_of(PLAN, FIRST)))

    assert isinstance(action, Stop)
    assert "canary 0.07, which is no step" in action.reason


def test_what_was_taken_back_never_goes_up_again_and_still_can_go_down():
    bad = verdict_of(PLAN, FIRST, Status.NO_GO)
    for at in (state("off"), AT_FIRST):
        held = next_action(situation(PLAN, at, verdict_of(PLAN, FIRST), closed="NO_GO"))
        assert isinstance(held, Hold)
        assert held.ended
    assert isinstance(next_action(situation(PLAN, AT_FIRST, bad, closed="NO_GO")), RollBack)


@pytest.mark.parametrize("fields", [{"begun": True}, {}], ids=["by the journal", "by the router"])
def test_what_somebody_turned_off_is_not_turned_on_again_by_itself(fields):
    manifest = None if fields else MANIFEST
    off = state("off", manifest_sha256=manifest, changed_by="Ada", reason="I have doubts")

    held = next_action(situation(PLAN, off, **fields))
    assert isinstance(held, Hold)
    assert held.ended
    assert "turned off by Ada: I have doubts" in held.reason
    assert isinstance(next_action(situation(PLAN, off, begin_again=True, **fields)), SetState)


def test_without_a_shadow_the_last_stage_before_users_must_have_been_go():
    plan = ladder_plan("canary", "watch")
    go = verdict_of(plan, Place("offline"))

    assert isinstance(next_action(situation(plan, state("off"))), Hold)
    assert isinstance(
        next_action(situation(plan, state("off"), verdict_of(plan, Place("shadow")))), Hold
    )
    bad = verdict_of(plan, Place("offline"), Status.NO_GO)
    assert isinstance(next_action(situation(plan, state("off"), bad)), Hold)
    assert isinstance(next_action(situation(plan, state("off"), go)), SetState)


@pytest.mark.parametrize(
    ("envelopes", "roles"),
    [
        ((), ("owner", "reviewer")),
        ((decision("Ada"),), ("reviewer",)),
        ((decision("Grace"), decision("Grace", hours=2)), ("owner",)),
        ((decision("Ada"), decision("Grace", hours=24 * 15)), ("reviewer",)),
        ((decision("Ada"), decision("Grace", verdict=OTHER)), ("reviewer",)),
        ((decision("nobody"), decision("Grace")), ("owner",)),
    ],
    ids=["none", "one", "same person", "expired", "of another verdict", "unknown key"],
)
def test_a_go_waits_for_the_signatures_that_are_missing(envelopes, roles):
    known = situation(SIGNED, AT_FIRST, verdict_of(SIGNED, FIRST), envelopes=envelopes)
    action = next_action(known)

    assert isinstance(action, AskApproval)
    assert (action.roles, action.verdict_sha256) == (roles, VERDICT)


def test_both_signatures_let_it_go_on_also_beside_one_that_expired():
    for envelopes in (BOTH, (decision("Grace", hours=24 * 15), *BOTH)):
        known = situation(SIGNED, AT_FIRST, verdict_of(SIGNED, FIRST), envelopes=envelopes)
        assert isinstance(next_action(known), SetState)


@pytest.mark.parametrize(
    "extra",
    [("Linus", "reject"), ("Grace", "override"), ("nobody", "approve")],
    ids=["rejected", "overridden", "unknown key"],
)
def test_an_objection_or_a_question_holds_it_whoever_else_has_signed(extra):
    known = situation(SIGNED, AT_FIRST, verdict_of(SIGNED, FIRST),
                      envelopes=(*BOTH, decision(*extra)))  # fmt: skip
    action = next_action(known)

    assert isinstance(action, Hold)
    assert action.ended


def test_who_sealed_the_plan_cannot_approve_it():
    known = situation(SIGNED, AT_FIRST, verdict_of(SIGNED, FIRST), envelopes=BOTH,
                      proposers=["Ada"])  # fmt: skip
    action = next_action(known)

    assert isinstance(action, AskApproval)
    assert action.roles == ("owner",)


def test_harm_needs_no_signature():
    bad = verdict_of(SIGNED, FIRST, Status.NO_GO)

    assert isinstance(next_action(situation(SIGNED, AT_FIRST, bad)), RollBack)


def test_all_users_are_watched_and_a_promotion_that_was_begun_is_ended():
    at, place = state("full"), Place("watch")
    well = situation(PLAN, at, verdict_of(PLAN, place))

    assert isinstance(next_action(well), Hold)
    bad = situation(PLAN, at, verdict_of(PLAN, place, Status.NO_GO), unfinished=VERDICT)
    assert isinstance(next_action(bad), RollBack)
    action = next_action(situation(PLAN, at, unfinished=VERDICT))
    assert isinstance(action, Promote)
    assert action.verdict_sha256 == VERDICT


def test_a_key_names_one_step_of_one_release():
    own = stage_key(PLAN, MANIFEST, FIRST)
    others = {
        stage_key(SIGNED, MANIFEST, FIRST),
        stage_key(PLAN, OTHER, FIRST),
        stage_key(PLAN, MANIFEST, Place("canary", "0.25")),
        stage_key(PLAN, MANIFEST, Place("shadow")),
    }

    assert own.startswith("canary-0.05-")
    assert own == stage_key(PLAN.at("canary"), MANIFEST, FIRST)
    assert len(others | {own}) == 5
