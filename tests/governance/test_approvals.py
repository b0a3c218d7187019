"""Approvals: every way in which a signature does not count, and that an override is no GO."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.approvals import (
    Finding,
    Flaw,
    check_approvals,
    decisions_on,
    record_approval,
    recorded_status,
    sign_approval,
)
from specdecode.governance.dsse import sign_payload
from specdecode.governance.ledger import Ledger
from specdecode.governance.statements import PlanSeal, write_statement
from specdecode.governance.verdict import Status
from tests.governance.keys import (
    ADA,
    ADA_REVIEWS,
    ENTRIES,
    GRACE,
    HOUR,
    LINUS,
    NOW,
    STRANGER,
    entry,
    key,
    signers,
)
from tests.governance.test_statements import PREDICATES

VERDICT, OTHER = "a" * 64, "b" * 64
ROLES = ["owner", "reviewer"]


def given(role, signer, decision="approve", *, verdict=VERDICT, at=NOW, days=1, reason="because"):
    return sign_approval(verdict, decision, role, signer, at=at, expires_days=days, reason=reason)


def flaws(*envelopes, required=ROLES, distinct=True, now=NOW + HOUR, listed=None, proposers=()):
    found = check_approvals(
        VERDICT,
        envelopes,
        listed or signers(),
        required,
        distinct=distinct,
        now=now,
        proposers=proposers,
    )
    return [finding.flaw for finding in found]


OWNER, REVIEWER = given("owner", ADA), given("reviewer", GRACE)


def test_two_people_in_their_roles_approve():
    assert flaws(OWNER, REVIEWER) == []
    assert flaws(REVIEWER, OWNER) == []


def test_more_approvals_than_asked_for_do_no_harm():
    assert flaws(OWNER, REVIEWER, given("operator", LINUS)) == []


def test_nothing_asked_for_is_nothing_missing():
    assert flaws(required=[]) == []


def test_each_missing_role_is_named():
    found = check_approvals(VERDICT, [], signers(), ROLES, distinct=True, now=NOW)
    assert [f.message for f in found] == [
        "1 approval as owner missing",
        "1 approval as reviewer missing",
    ]


def test_messages_name_who_and_what_and_why():
    found = check_approvals(
        VERDICT,
        [
            given("owner", ADA, "reject", reason="too early"),
            given("reviewer", GRACE, verdict=OTHER),
        ],
        signers(),
        ["owner", "owner"],
        distinct=True,
        now=NOW,
    )
    assert [f.message for f in found] == [
        "Ada as owner rejected the verdict: too early",
        "Grace as reviewer: signed for another verdict, bbbbbbbbbbbb",
        "2 approvals as owner missing",
    ]


@pytest.mark.parametrize(
    ("bad", "flaw"),
    [
        (given("reviewer", GRACE, verdict=OTHER), Flaw.REPLAYED),
        (given("reviewer", GRACE, at=NOW - 24 * HOUR), Flaw.EXPIRED),
        (given("reviewer", GRACE, at=NOW + 2 * HOUR), Flaw.POST_DATED),
        (given("reviewer", STRANGER), Flaw.UNKNOWN_KEY),
        (given("reviewer", LINUS), Flaw.WRONG_ROLE),
        (given("reviewer", GRACE, "reject"), Flaw.REJECTED),
        (given("reviewer", GRACE, "override"), Flaw.OVERRIDDEN),
        (given("reviewer", ADA_REVIEWS), Flaw.SAME_PERSON),
        (REVIEWER.model_copy(update={"signatures": OWNER.signatures}), Flaw.TAMPERED),
        (REVIEWER.model_copy(update={"payload": OWNER.payload}), Flaw.TAMPERED),
        (sign_payload(REVIEWER.body, GRACE, LINUS), Flaw.TAMPERED),
        (sign_payload(write_statement(PREDICATES[0]), GRACE), Flaw.TAMPERED),
    ],
)
def test_a_signature_that_does_not_count_is_named_and_leaves_its_role_open(bad, flaw):
    assert isinstance(PREDICATES[0], PlanSeal)
    assert flaws(OWNER, bad) == [flaw, Flaw.MISSING]


def test_an_approval_ends_at_its_last_moment():
    assert flaws(OWNER, REVIEWER, now=NOW + 24 * HOUR - HOUR / 3600) == []
    assert flaws(OWNER, REVIEWER, now=NOW + 24 * HOUR)[:2] == [Flaw.EXPIRED, Flaw.EXPIRED]


@pytest.mark.parametrize(
    "times",
    [{"valid_until": "2026-11-30T04:30:00Z"}, {"valid_from": "2026-11-30T04:30:00Z"}],
)
def test_a_key_must_be_valid_when_it_signs_and_when_the_approval_is_used(times):
    listed = signers(ENTRIES[0], entry("Grace", "reviewer", GRACE, **times))
    assert flaws(OWNER, REVIEWER, listed=listed) == [Flaw.KEY_NOT_VALID, Flaw.MISSING]


def test_one_person_may_have_two_roles_where_the_plan_does_not_ask_for_two_people():
    both = (OWNER, given("reviewer", ADA_REVIEWS))
    assert flaws(*both, distinct=False) == []
    assert flaws(*both, distinct=True) == [Flaw.SAME_PERSON, Flaw.MISSING]


def test_a_role_needed_twice_takes_two_people():
    again = given("owner", key(5), at=NOW + HOUR / 2)
    listed = signers(*ENTRIES, entry("Ada", "owner", key(5)))
    for distinct in (False, True):
        asked = {"required": ["owner", "owner"], "distinct": distinct, "listed": listed}
        assert flaws(OWNER, OWNER, **asked) == [Flaw.SAME_PERSON, Flaw.MISSING]
        assert flaws(OWNER, again, **asked) == [Flaw.SAME_PERSON, Flaw.MISSING]
    others = signers(*ENTRIES, entry("Barbara", "owner", key(5)))
    assert flaws(OWNER, again, required=["owner", "owner"], listed=others) == []


def test_who_proposed_the_change_cannot_approve_it_with_any_key():
    assert flaws(OWNER, REVIEWER, proposers=["Ada"]) == [Flaw.PROPOSER, Flaw.MISSING]
    both = (given("owner", ADA), given("reviewer", ADA_REVIEWS))
    assert flaws(*both, proposers=["Ada"], required=[]) == [Flaw.PROPOSER, Flaw.PROPOSER]
    assert flaws(OWNER, REVIEWER, proposers=["Linus"]) == []
    assert flaws(OWNER, REVIEWER, proposers=["Linus", "Ada"]) == [Flaw.PROPOSER, Flaw.MISSING]


def _findings(*found: Flaw) -> list[Finding]:
    return [Finding(flaw, "") for flaw in found]


@pytest.mark.parametrize("status", list(Status))
def test_an_override_is_never_go(status):
    assert recorded_status(status, _findings(Flaw.MISSING, Flaw.OVERRIDDEN)) == "OVERRIDDEN"
    assert recorded_status(status, _findings(Flaw.OVERRIDDEN, Flaw.REJECTED)) == "OVERRIDDEN"


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.GO])
@pytest.mark.parametrize("found", [[], [Flaw.MISSING], [Flaw.REJECTED]])
def test_approvals_change_no_other_verdict(status, found):
    assert recorded_status(status, _findings(*found)) == status


def test_a_go_stays_one_only_without_any_finding_but_a_signature_too_many():
    assert recorded_status(Status.GO, []) == "GO"
    assert recorded_status(Status.GO, _findings(Flaw.MISSING, Flaw.REJECTED)) == "NO_GO"
    too_many = {Flaw.PROPOSER, Flaw.SAME_PERSON}
    for flaw in set(Flaw) - {Flaw.REJECTED, Flaw.OVERRIDDEN} - too_many:
        assert recorded_status(Status.GO, _findings(flaw)) == "INCONCLUSIVE"
    assert recorded_status(Status.GO, _findings(*too_many)) == "GO"
    assert recorded_status(Status.GO, _findings(Flaw.PROPOSER, Flaw.MISSING)) == "INCONCLUSIVE"


def test_an_override_beside_every_approval_is_still_an_override():
    override = given("operator", LINUS, "override")
    found = check_approvals(
        VERDICT, [OWNER, REVIEWER, override], signers(), ROLES, distinct=True, now=NOW
    )
    assert recorded_status(Status.GO, found) == "OVERRIDDEN"
    assert "Linus as operator overrode the verdict: because" in found[0].message


@pytest.mark.parametrize(
    "wrong",
    [
        {"decision": "agree"},
        {"days": 0},
        {"verdict": "abc"},
        {"decision": "reject", "reason": None},
    ],
)
def test_a_decision_that_says_nothing_is_not_signed(wrong):
    with pytest.raises(ConfigError):
        given("owner", ADA, **wrong)


@pytest.mark.parametrize("decision", ["approve", "reject", "override"])
def test_decisions_go_on_record_once(tmp_path, decision):
    ledger = Ledger(tmp_path / "ledger.jsonl", clock=lambda: NOW)
    envelope = given("owner", ADA, decision)
    line = record_approval(envelope, ledger)
    assert line.kind == ("override" if decision == "override" else "approval")
    assert line.body["verdict_sha256"] == VERDICT
    assert line.body["envelope"] == envelope.to_json()
    with pytest.raises(ConfigError, match="on record already"):
        record_approval(envelope, ledger)
    assert ledger.entries() == (line,)
    other = record_approval(given("reviewer", GRACE, decision), ledger)
    assert ledger.entries() == (line, other)


def test_a_decision_goes_on_record_from_the_second_in_which_it_was_signed(tmp_path):
    late = Ledger(tmp_path / "late.jsonl", clock=lambda: NOW - HOUR / 3600)
    with pytest.raises(ConfigError, match="set the clock right and sign it again"):
        record_approval(OWNER, late)
    assert late.entries() == ()

    ledger = Ledger(tmp_path / "ledger.jsonl", clock=lambda: NOW)
    record_approval(OWNER, ledger)
    assert decisions_on(VERDICT, ledger.entries()) == [OWNER]


def test_a_clock_set_back_a_little_does_not_keep_a_decision_from_the_record(tmp_path):
    """Its line takes the time of the line above, and so is not older than the decision."""
    times = iter([NOW, *[NOW - HOUR / 3600] * 2])
    ledger = Ledger(tmp_path / "ledger.jsonl", clock=lambda: next(times))
    ledger.append("opened", {})

    assert record_approval(OWNER, ledger).time == NOW


def test_a_line_older_than_the_decision_it_holds_is_noticed(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    body = {"verdict_sha256": VERDICT, "envelope": OWNER.to_json()}
    ledger.append("approval", body, at=NOW - HOUR / 3600)

    with pytest.raises(TamperedError, match=r"line 1 of the ledger, of .* was signed later"):
        decisions_on(VERDICT, ledger.entries())
    assert decisions_on(OTHER, ledger.entries()) == []


@pytest.mark.parametrize("kind", ["approval", "override"])
def test_a_line_without_a_decision_is_noticed(tmp_path, kind):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    seal = sign_payload(write_statement(PREDICATES[0]), ADA)
    ledger.append(kind, {"verdict_sha256": VERDICT, "envelope": seal.to_json()}, at=NOW)

    with pytest.raises(TamperedError):
        decisions_on(VERDICT, ledger.entries())
