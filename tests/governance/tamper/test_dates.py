"""Dates that people signed and dates that the ledger gives have to tell one story."""

from __future__ import annotations

from datetime import timedelta

import pytest

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


def test_a_seal_signed_after_the_rows_is_too_late(tmp_path, checked):
    late = seal_of(PLAN, at=DECIDED)
    ledger = chained(seal_line(late, PLAN, at=DECIDED), APPROVED)

    code, wrong, text = checked(good().write(tmp_path, seal=late, ledger=ledger).read_bytes())

    assert (code, wrong) == (12, {"ledger"})
    assert "after the first row" in text


def test_a_late_seal_cannot_be_dated_back_by_the_ledgers_line(tmp_path, checked):
    """Whoever rewrites the ledger needs no key for it; the seal itself says when it was signed."""
    late = seal_of(PLAN, at=DECIDED)
    ledger = chained(seal_line(late, PLAN, at=SEALED), APPROVED)

    code, wrong, _ = checked(good().write(tmp_path, seal=late, ledger=ledger).read_bytes())

    assert (code, wrong) == (3, {"ledger"})


@pytest.mark.parametrize("which", [slice(0, 1), slice(None)], ids=["one", "all"])
def test_a_row_without_a_time_is_not_known_to_be_younger_than_the_seal(tmp_path, checked, which):
    def timeless(records):
        chosen = {id(record) for record in records[which]}
        return [r.model_copy(update={"started_at": None}) if id(r) in chosen else r
                for r in records]  # fmt: skip

    code, wrong, text = checked(case(change=timeless).write(tmp_path).read_bytes())

    assert (code, wrong) == (12, {"ledger"})
    assert "do not say when they were started" in text


@pytest.mark.parametrize(
    "signed",
    [START - timedelta(days=1), DECIDED + timedelta(hours=5)],
    ids=["before the rows it is about", "after the ledger has it"],
)
def test_an_approval_is_signed_between_its_verdict_and_its_line(tmp_path, checked, signed):
    given = approval_of(OWN, at=utc(signed))
    ledger = good().ledger(decisions=[decision_line(given, OWN)])

    code, wrong, _ = checked(good().write(tmp_path, approvals=[given], ledger=ledger).read_bytes())

    assert (code, wrong) == (3, {"approvals"})


def test_a_key_that_is_valid_no_more_cannot_approve_by_dating_back(tmp_path, checked):
    """`check_approvals` refuses it: the signer alone says when they signed."""
    listed = signers_text(entry("Ada", "owner", ADA),
                          entry("Grace", "reviewer", GRACE, valid_until=utc(DECIDED)))  # fmt: skip
    seal = seal_of(PLAN, signers=listed)
    given = approval_of(OWN, at=utc(DECIDED - timedelta(hours=1)))
    ledger = good().ledger(seal=seal, decisions=[decision_line(given, OWN)])
    made = good().write(tmp_path, seal=seal, ledger=ledger, approvals=[given], signers_text=listed)

    code, wrong, text = checked(made.read_bytes())

    assert (code, wrong) == (12, {"approvals"})
    assert "the key was valid no more" in text


def test_a_verdict_on_record_is_younger_than_the_rows_it_judges(tmp_path, checked):
    ledger = chained(
        seal_line(good().seal, PLAN),
        ("verdict", SEALED, {"plan_sha256": PLAN, "verdict_sha256": OWN}),
        APPROVED,
    )

    code, wrong, _ = checked(good().write(tmp_path, ledger=ledger).read_bytes())

    assert (code, wrong) == (3, {"ledger"})


def test_an_approval_may_be_signed_in_the_second_of_the_last_row_and_of_its_line(tmp_path, checked):
    last = max(row.started_at for row in good().rows)
    given = approval_of(OWN, at=utc(last))
    ledger = chained(
        seal_line(good().seal, PLAN),
        ("verdict", last, {"plan_sha256": PLAN, "verdict_sha256": OWN}),
        (*decision_line(given, OWN)[:1], last, decision_line(given, OWN)[2]),
    )

    made = good().write(tmp_path, approvals=[given], ledger=ledger)

    assert checked(made.read_bytes())[:2] == (0, set())


def test_a_key_counts_from_its_first_second_on(tmp_path, checked):
    listed = signers_text(entry("Ada", "owner", ADA, valid_from=utc(SEALED)),
                          entry("Grace", "reviewer", GRACE, valid_from=utc(DECIDED)))  # fmt: skip
    seal = seal_of(PLAN, signers=listed)
    ledger = good().ledger(seal=seal)
    made = good().write(tmp_path, seal=seal, ledger=ledger, signers_text=listed)

    assert checked(made.read_bytes())[:2] == (0, set())


@pytest.mark.parametrize(("after", "code"), [(0, 12), (1, 0)])
def test_a_key_counts_until_the_bundle_is_made(tmp_path, checked, after, code):
    until = utc(BUNDLED + timedelta(seconds=after))
    listed = signers_text(entry("Ada", "owner", ADA),
                          entry("Grace", "reviewer", GRACE, valid_until=until))  # fmt: skip
    seal = seal_of(PLAN, signers=listed)
    made = good().write(tmp_path, seal=seal, ledger=good().ledger(seal=seal), signers_text=listed)

    assert checked(made.read_bytes())[0] == code


def with_one_row_at(time):
    return case(change=lambda rows: [rows[0].model_copy(update={"started_at": time}), *rows[1:]])


@pytest.mark.parametrize(("before", "code"), [(0, 0), (1, 12)])
def test_one_row_before_the_seal_is_enough(tmp_path, checked, before, code):
    own = with_one_row_at(SEALED - timedelta(seconds=before))

    assert checked(own.write(tmp_path).read_bytes())[0] == code


def test_one_row_after_verdict_and_approval_is_enough(tmp_path, checked):
    own = with_one_row_at(DECIDED + timedelta(seconds=1))
    digest, given = own.verdict_sha256, approval_of(own.verdict_sha256)
    judged = ("verdict", DECIDED, {"plan_sha256": PLAN, "verdict_sha256": digest})
    ledger = chained(seal_line(own.seal, PLAN), judged, decision_line(given, digest))

    made = own.write(tmp_path, ledger=ledger, approvals=[given])

    assert checked(made.read_bytes())[:2] == (3, {"ledger", "approvals"})
