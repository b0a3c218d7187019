"""A release waits for people, who sign, reject, or are nobody."""

from __future__ import annotations

from dataclasses import replace

from specdecode.governance.approvals import sign_approval
from specdecode.governance.ladder_actions import (
    AskApproval,
    Hold,
    RollBack,
    SetState,
)
from tests.governance.keys import ADA, GRACE, HOUR, STRANGER, signers
from tests.pipelines.fake_router import NOW
from tests.pipelines.releases import ALL, WAY_UP, harmed, release_plan, world

SIGNED = release_plan(approvals={"required_roles": ["owner", "reviewer"], "expires_days": 14,
                                 "distinct_persons": True, "signers_file": "-"})  # fmt: skip


def signed(kept, key, role, decision="approve"):
    """A decision on a verdict, as a file."""
    reason = None if decision == "approve" else "no"
    return sign_approval(kept, decision, role, key, at=NOW - HOUR, expires_days=14,
                         reason=reason).to_bytes()  # fmt: skip


def test_signatures_are_asked_for_once_checked_and_put_on_record(tmp_path):
    own = world(tmp_path, plan=SIGNED, signers=signers())
    own.look(*ALL)
    found = own.look(*ALL)
    assert isinstance(found.action, AskApproval)
    assert found.action.roles == ("owner", "reviewer")
    records, digest = own.release().records, found.action.verdict_sha256

    (records.inbox / "nobody.approval.json").write_bytes(signed(digest, STRANGER, "owner"))
    (records.inbox / "noise.approval.json").write_bytes(b"{}")
    (records.inbox / "other.approval.json").write_bytes(signed("f" * 64, ADA, "owner"))
    (records.folder / "ada.approval.json").write_bytes(signed(digest, ADA, "owner"))
    found = own.look(*ALL)
    assert isinstance(found.action, AskApproval)
    assert found.action.roles == ("reviewer",)
    assert len(found.refused) == 2
    assert own.told.count(("shadow", "AskApproval")) == 1

    (records.inbox / "grace.approval.json").write_bytes(signed(digest, GRACE, "reviewer"))
    found = own.look(*ALL)
    assert isinstance(found.action, SetState)
    assert own.router.went == WAY_UP[:2]
    kinds = [entry.kind for entry in own.release().people.ledger.entries()]
    assert kinds == ["verdict", "approval", "approval"]


def test_a_signature_of_one_step_is_no_good_for_the_next(tmp_path):
    own = world(tmp_path, plan=SIGNED, signers=signers())
    own.look(*ALL)
    digest = own.look(*ALL).action.verdict_sha256
    inbox = own.release().records.inbox
    for key, role in ((ADA, "owner"), (GRACE, "reviewer")):
        (inbox / f"{role}.approval.json").write_bytes(signed(digest, key, role))
    own.look(*ALL)
    found = own.look(*ALL)

    assert own.router.went == WAY_UP[:2]
    assert isinstance(found.action, AskApproval)
    assert found.action.verdict_sha256 != digest


def test_a_rejection_holds_and_harm_while_people_think_rolls_back(tmp_path):
    own = world(tmp_path, plan=SIGNED, signers=signers())
    own.look(*ALL)
    digest = own.look(*ALL).action.verdict_sha256
    inbox = own.release().records.inbox
    (inbox / "ada.approval.json").write_bytes(signed(digest, ADA, "owner", "reject"))
    held = own.look(*ALL)
    assert isinstance(held.action, Hold)
    assert held.ended
    assert "Ada as owner rejected" in held.action.reason

    own.traffic.more = [row | {"request_id": f"x{i}", "prompt_id": f"x{i // 2}"}
                        for i, row in enumerate(harmed())]  # fmt: skip
    assert isinstance(own.look(*ALL).action, RollBack)


def test_a_plan_that_nobody_sealed_goes_no_step_beyond_the_shadow(tmp_path):
    own = world(tmp_path)
    own.look(*ALL)
    own.changes = {"people": replace(own.release().people, unsealed=False)}
    found = own.look(*ALL)

    assert isinstance(found.action, Hold)
    assert "is not sealed" in found.action.reason
    assert own.router.went == WAY_UP[:1]
