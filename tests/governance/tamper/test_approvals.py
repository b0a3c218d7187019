"""Approvals of something else, by somebody else, at another time, or used again."""

from __future__ import annotations

import pytest

from specdecode.governance import Status
from specdecode.governance.dsse import sign_payload
from specdecode.governance.signing import encode_base64
from tests.governance.bundles import (
    BUNDLED,
    EXPIRES,
    approval_of,
    case,
    decision_line,
    edited,
    good,
    repacked,
    seal_of,
    utc,
)
from tests.governance.keys import ADA, GRACE, STRANGER
from tests.governance.plans import FASTER
from tests.governance.tamper.attacks import OWN, unsigned, with_approval
from tests.measurement.factories import run

APPROVALS = {
    "of another verdict": (approval_of("0" * 64), 3, "is of another verdict"),
    "expired": (approval_of(OWN, expires=utc(BUNDLED)), 12, "had expired"),
    "by a stranger": (approval_of(OWN, STRANGER), 3, "which nobody has"),
    "for a role they do not have": (approval_of(OWN, role="owner"), 12, "which they are not"),
    "that rejects": (approval_of(OWN, decision="reject", reason="no"), 12, "rejects the verdict"),
    "that is a seal": (seal_of(OWN, GRACE), 3, "is no approval"),
}


@pytest.mark.parametrize("name", APPROVALS)
def test_an_approval_that_is_none_is_seen(bundle, checked, name):
    envelope, expected, cause = APPROVALS[name]

    code, wrong, text = checked(repacked(with_approval(bundle, envelope)))

    assert (code, wrong) == (expected, {"approvals"})
    assert cause in text


def test_an_approval_that_is_not_on_record_is_seen(bundle, checked):
    other = approval_of(OWN, expires=utc(EXPIRES.replace(year=2030)))

    code, wrong, text = checked(
        repacked(unsigned(bundle, **{"approvals/000.json": other.to_bytes()}))
    )

    assert (code, wrong) == (3, {"approvals"})
    assert "the ledger has 1 decisions on this verdict, the bundle 1" in text


def test_an_approval_cannot_be_prolonged(bundle, checked):
    longer = approval_of(OWN, expires=utc(EXPIRES.replace(year=2030))).to_json()["payload"]
    change = lambda e: e.update(payload=longer)  # noqa: E731
    attacked = unsigned(bundle)
    attacked["approvals/000.json"] = edited(attacked["approvals/000.json"], change)

    code, wrong, text = checked(repacked(attacked))

    assert (code, wrong) == (3, {"approvals"})
    assert "not over this payload" in text


def test_an_approval_is_signed_by_one_person(bundle, checked):
    both = sign_payload(good().approval.body, GRACE, ADA)

    code, wrong, text = checked(repacked(with_approval(bundle, both)))

    assert (code, wrong) == (12, {"approvals"})
    assert "2 signatures, an approval has one" in text


def test_a_key_that_was_not_sealed_does_not_count(bundle, checked):
    text = bundle["signers.yaml"].replace(
        encode_base64(GRACE.public_key).encode(), encode_base64(STRANGER.public_key).encode()
    )
    files = with_approval(bundle, approval_of(OWN, STRANGER)) | {"signers.yaml": text}

    code, wrong, text = checked(repacked(files))

    assert (code, wrong) == (3, {"seal"})
    assert "signers.yaml is not the one that was sealed" in text


def test_an_approval_of_an_earlier_verdict_on_the_same_plan_cannot_be_replayed(tmp_path, checked):
    """Measured again, decided again, and the ledger kept as it should be: only the old approval
    is put where a new one is needed."""
    again = case(rows=run(24, seed=1))
    old = good().approval
    ledger = again.ledger(decisions=[decision_line(old, again.verdict_sha256)])
    made = again.write(tmp_path, ledger=ledger, approvals=[old])

    code, wrong, text = checked(made.read_bytes())

    assert again.verdict.plan_sha256 == good().verdict.plan_sha256
    assert again.verdict.status == good().verdict.status
    assert (code, wrong) == (3, {"approvals"})
    assert f"is of another verdict than {again.verdict_sha256[:12]}" in text


@pytest.mark.parametrize("distinct", [True, False])
def test_an_approval_put_in_twice_counts_once(tmp_path, checked, distinct):
    made = case(FASTER, approvals={
        "required_roles": ["reviewer", "reviewer"], "distinct_persons": distinct,
        "expires_days": 30, "signers_file": "plans/signers.yaml"})  # fmt: skip
    bundle = made.write(tmp_path, approvals=[made.approval, made.approval])

    code, wrong, text = checked(bundle.read_bytes())

    assert made.verdict.status is Status.GO
    assert (code, wrong) == (12, {"approvals"})
    assert "an approval as reviewer by another person is missing" in text
