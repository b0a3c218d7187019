"""Seal, known keys, known heads, and what came before what."""

from __future__ import annotations

from datetime import timedelta

import pytest

from specdecode.governance.canonical import sha256_hex
from specdecode.governance.dsse import sign_payload
from specdecode.governance.signing import encode_base64
from specdecode.governance.statements import Deviation, write_statement
from specdecode.governance.verifier import text_of, verify
from tests.governance.bundle.looks import wrong
from tests.governance.bundles import (
    DECIDED,
    SEALED,
    chained,
    decision_line,
    good,
    seal_line,
    seal_of,
    utc,
)
from tests.governance.keys import ADA, GRACE, STRANGER
from tests.measurement.factories import START


def test_a_bundle_that_nobody_sealed_is_invalid_unless_that_is_asked_for(tmp_path):
    path = good().write(tmp_path, seal=None, ledger=None, approvals=())

    assert verify(path)["exit_code"] == 12
    assert set(wrong(verify(path))) == {"seal", "ledger", "approvals"}
    assert verify(path, unsealed=True)["exit_code"] == 0


def test_a_sealed_bundle_cannot_be_waived(tmp_path):
    path = good().write(tmp_path, ledger=chained(("seal", SEALED, {"plan_sha256": "0" * 64})))

    assert verify(path, unsealed=True)["exit_code"] == 3


def test_a_key_that_the_reader_trusts_is_demanded(path):
    assert verify(path, signers=[encode_base64(GRACE.public_key)])["exit_code"] == 3
    both = [encode_base64(key.public_key) for key in (ADA, GRACE)]
    assert verify(path, signers=both)["exit_code"] == 0


def test_a_head_that_the_reader_knows_has_to_be_in_the_ledger(path):
    first = sha256_hex(good().ledger().split(b"\n")[0])

    assert verify(path, head=first)["exit_code"] == 0
    assert verify(path, head="0" * 64)["exit_code"] == 3


def test_a_plan_sealed_after_the_rows_were_measured_is_invalid(tmp_path):
    digest, own = good().verdict.plan_sha256, good().verdict_sha256
    seal = seal_of(digest, at=DECIDED)
    late = chained(seal_line(seal, digest, at=DECIDED), decision_line(good().approval, own))

    verification = verify(good().write(tmp_path, seal=seal, ledger=late))

    assert verification["exit_code"] == 12
    assert "after the first row" in text_of(verification)


@pytest.mark.parametrize("before", [timedelta(0), timedelta(days=1)], ids=["same second", "a day"])
@pytest.mark.parametrize("named", ["plan", "confirmation"])
def test_prompts_opened_before_the_seal_are_seen(tmp_path, before, named):
    """By the place of its line, and also where it names the set alone that was sealed."""
    digest, own = good().verdict.plan_sha256, good().verdict_sha256
    seal = seal_of(digest, confirmation="e" * 64)
    body = {"plan_sha256": digest} if named == "plan" else {"subjects": {"confirmation": "e" * 64}}
    early = chained(("opened", SEALED - before, body), seal_line(seal, digest),
                    decision_line(good().approval, own))  # fmt: skip

    verification = verify(good().write(tmp_path, seal=seal, ledger=early))

    assert verification["exit_code"] == 3
    assert "opened before the seal" in text_of(verification)


def with_amendment(tmp_path, by=ADA, *, opened=(), kept=None, **fields):
    """A good bundle whose ledger has one amendment; `kept` replaces fields of the line's body."""
    digest, own = good().verdict.plan_sha256, good().verdict_sha256
    said = {"plan_sha256": digest, "when": utc(START), "stage": "offline", "what": "one less",
            "why": "broken", "data_seen": "none", "impact": "none", "author": "Ada"}  # fmt: skip
    signed = sign_payload(write_statement(Deviation.model_validate(said | fields)), by)
    body = {"plan_sha256": digest, "deviation_sha256": signed.sha256, "envelope": signed.to_json()}
    lines = chained(seal_line(good().seal, digest), *opened,
                    ("amendment", START, body | (kept or {})),
                    decision_line(good().approval, own))  # fmt: skip
    return verify(good().write(tmp_path, ledger=lines))


def test_amendments_are_pointed_out(tmp_path):
    found = with_amendment(tmp_path)
    assert found["exit_code"] == 0
    assert "1 amendments, read them" in text_of(found)


@pytest.mark.parametrize(
    ("forged", "cause"),
    [
        ({"by": STRANGER}, "which nobody has"),
        ({"by": GRACE}, "an amendment by Ada, who did not sign it"),
        ({"kept": {"envelope": None}}, "nobody signed this amendment"),
        ({"kept": {"deviation_sha256": "0" * 64}}, "another deviation than was signed"),
        ({"when": utc(SEALED)}, "another deviation than was signed"),
    ],
)
def test_an_amendment_that_its_author_did_not_sign_is_seen(tmp_path, forged, cause):
    found = with_amendment(tmp_path, **forged)
    assert found["exit_code"] == 3
    assert cause in text_of(found)


def test_what_was_amended_once_data_were_there_is_no_go(tmp_path):
    opening = ("opened", START, {"plan_sha256": good().verdict.plan_sha256})
    for found in (
        with_amendment(tmp_path, opened=[opening]),
        with_amendment(tmp_path, data_seen="full"),
    ):
        assert found["exit_code"] == 12
        assert "exploratory" in text_of(found)
