"""Dates that people signed and dates that the ledger gives have to tell one story."""

from __future__ import annotations

from datetime import timedelta

import pytest

from specdecode.governance.canonical import sha256_hex
from specdecode.governance.dsse import sign_payload
from specdecode.governance.statements import PlanSeal, write_statement
from tests.governance.bundles import (
    BUNDLED,
    DECIDED,
    SEALED,
    approval_of,
    case,
    chained,
    decision_line,
    good,
    seal_line,
    seal_of,
    signers_text,
    utc,
)
from tests.governance.keys import ADA, GRACE, entry
from tests.governance.tamper.attacks import APPROVED, OWN, PLAN
from tests.measurement.factories import START


def sealed_on(at):
    """A seal that was signed at this time."""
    predicate = PlanSeal(plan_sha256=PLAN, plan_name="small", at=utc(at), tree_clean=True,
                         confirmation_opened=False, power=None, power_wanted=None,
                         power_basis=None, anchor="none")  # fmt: skip
    subjects = {"plans/signers.yaml": sha256_hex(signers_text())}
    return sign_payload(write_statement(predicate, subjects), ADA)


def test_a_seal_signed_after_the_rows_is_too_late(tmp_path, checked):
    late = sealed_on(DECIDED)
    ledger = chained(seal_line(late, PLAN, at=DECIDED), APPROVED)

    code, wrong, text = checked(good().write(tmp_path, seal=late, ledger=ledger).read_bytes())

    assert (code, wrong) == (12, {"ledger"})
    assert "after the first row" in text


def test_a_late_seal_cannot_be_dated_back_by_the_ledgers_line(tmp_path, checked):
    """Whoever rewrites the ledger needs no key for it; the seal itself says when it was signed."""
    late = sealed_on(DECIDED)
    ledger = chained(seal_line(late, PLAN, at=SEALED), APPROVED)

    code, wrong, _ = checked(good().write(tmp_path, seal=late, ledger=ledger).read_bytes())

    assert (code, wrong) == (3, {"ledger"})


@pytest.mark.parametrize(
    "signed",
    [START - timedelta(days=1), DECIDED + timedelta(hours=5)],
    ids=["before the rows it is about", "after the ledger has it"],
)
def test_an_approval_is_signed_between_its_verdict_and_its_line(tmp_path, checked, signed):
    given = approval_of(OWN, at=utc(signed))
    ledger = good().ledger(decisions=[decision_line(given, OWN)])

    code, wrong, _ = checked(good().write(tmp_path, approvals=[given], ledger=ledger).read_bytes())

    assert code in (3, 12)
    assert wrong <= {"ledger", "approvals"}


def test_a_key_that_is_valid_no_more_cannot_approve_by_dating_back(tmp_path, checked):
    """`check_approvals` refuses it: the signer alone says when they signed."""
    listed = signers_text(entry("Ada", "owner", ADA),
                          entry("Grace", "reviewer", GRACE, valid_until=utc(DECIDED)))  # fmt: skip
    seal = seal_of(PLAN, signers=listed)
    given = approval_of(OWN, at=utc(DECIDED - timedelta(hours=1)))
    ledger = good().ledger(seal=seal, decisions=[decision_line(given, OWN)])
    made = good().write(tmp_path, seal=seal, ledger=ledger, approvals=[given], signers_text=listed)

    code, wrong, _ = checked(made.read_bytes())

    assert code in (3, 12)
    assert wrong == {"approvals"}


def test_a_verdict_on_record_is_younger_than_the_rows_it_judges(tmp_path, checked):
    ledger = chained(
        seal_line(good().seal, PLAN),
        ("verdict", SEALED, {"plan_sha256": PLAN, "verdict_sha256": OWN}),
        APPROVED,
    )

    code, wrong, _ = checked(good().write(tmp_path, ledger=ledger).read_bytes())

    assert code in (3, 12)
    assert wrong == {"ledger"}


def test_rows_from_after_the_bundle_are_seen(tmp_path, checked):
    later = case(change=lambda rows: [*rows[:-1], rows[-1].model_copy(
        update={"started_at": BUNDLED + timedelta(seconds=1)})])  # fmt: skip

    code, wrong, text = checked(later.write(tmp_path, at=BUNDLED).read_bytes())

    assert code == 3
    assert "counts" in wrong
    assert "rows began after the bundle was made" in text


def test_rows_that_do_not_say_when_are_not_shown_to_come_after_the_seal(tmp_path, checked):
    silent = case(change=lambda rows: [
        row.model_copy(update={"started_at": None}) for row in rows])  # fmt: skip

    code, wrong, text = checked(silent.write(tmp_path).read_bytes())

    assert (code, wrong) == (12, {"ledger"})
    assert "nothing shows that the plan was sealed before" in text
