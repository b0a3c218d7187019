"""Deviations: on record, signed, and exploratory where they could have been chosen to suit."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.amendments import amend, exploratory, read_amendments
from specdecode.governance.ledger import Ledger
from specdecode.governance.signing import encode_base64
from specdecode.governance.statements import Deviation, write_statement
from specdecode.governance.timestamps import utc_text
from tests.governance.keys import ADA, GRACE, HOUR, NOW, STRANGER, signers

PLAN, OTHER = "a" * 64, "b" * 64
FORESEEN = ["interrupted-run"]


def deviation(hours: int, **fields: object) -> Deviation:
    document = {
        "plan_sha256": PLAN,
        "when": utc_text(NOW + hours * HOUR),
        "stage": "offline",
        "what": "one prompt is left out",
        "why": "it cannot be tokenised",
        "data_seen": "none",
        "impact": "none expected",
        "author": "Ada",
    }
    return Deviation.model_validate(document | fields)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append("seal", {"plan_sha256": PLAN}, at=NOW)
    return ledger


def opened(ledger, hours: int, plan: str = PLAN) -> None:
    ledger.append("opened", {"subjects": {"plan": plan}}, at=NOW + hours * HOUR)


def test_a_deviation_is_on_record_and_signed(ledger):
    envelope = amend(deviation(1), ADA, ledger, FORESEEN)
    line = ledger.entries()[-1]
    assert (line.kind, line.at) == ("amendment", "2026-11-30T05:00:00Z")
    assert line.body["envelope"] == envelope.to_json()
    ((found, signed_by),) = read_amendments(ledger.entries(), signers(), PLAN)
    assert found.deviation == deviation(1)
    assert [signer.name for signer in signed_by] == ["Ada"]
    assert read_amendments(ledger.entries(), signers(), OTHER) == []


def test_before_the_opening_a_result_can_still_confirm(ledger):
    amend(deviation(1, data_seen="dev"), ADA, ledger, FORESEEN)
    opened(ledger, 2)
    assert exploratory(ledger, FORESEEN, signers(), PLAN) == []


def test_after_the_opening_it_cannot(ledger):
    opened(ledger, 1)
    amend(deviation(2), ADA, ledger, FORESEEN)
    (reason,) = exploratory(ledger, FORESEEN, signers(), PLAN)
    assert "after the confirmation set was opened: one prompt is left out" in reason


@pytest.mark.parametrize("seen", ["partial", "full"])
def test_confirmation_data_seen_before_an_opening_on_record_make_it_exploratory(ledger, seen):
    amend(deviation(1, data_seen=seen), ADA, ledger, FORESEEN)
    (reason,) = exploratory(ledger, FORESEEN, signers(), PLAN)
    assert f"seen confirmation data ({seen})" in reason


def test_what_the_plan_foresaw_does_not_make_it_exploratory(ledger):
    opened(ledger, 1)
    amend(deviation(2, contingency="interrupted-run", data_seen="full"), ADA, ledger, FORESEEN)
    assert exploratory(ledger, FORESEEN, signers(), PLAN) == []
    assert len(exploratory(ledger, [], signers(), PLAN)) == 1  # the plan decides what was foreseen


def test_each_deviation_counts_by_itself(ledger):
    opened(ledger, 1)
    amend(deviation(2, contingency="interrupted-run"), ADA, ledger, FORESEEN)
    amend(deviation(3, what="a"), ADA, ledger, FORESEEN)
    amend(deviation(4, what="b"), ADA, ledger, FORESEEN)
    assert [reason[-1] for reason in exploratory(ledger, FORESEEN, signers(), PLAN)] == ["a", "b"]


def test_openings_and_deviations_of_other_plans_do_not_count(ledger):
    opened(ledger, 1, OTHER)
    amend(deviation(2), ADA, ledger, FORESEEN)
    assert exploratory(ledger, FORESEEN, signers(), PLAN) == []
    amend(deviation(3, data_seen="full"), ADA, ledger, FORESEEN)
    assert len(exploratory(ledger, FORESEEN, signers(), PLAN)) == 1


def test_a_deviation_from_another_plan_says_nothing_about_this_one(ledger):
    ledger.append("seal", {"plan_sha256": OTHER}, at=NOW)
    opened(ledger, 1)
    opened(ledger, 1, OTHER)
    amend(deviation(2, plan_sha256=OTHER), ADA, ledger, FORESEEN)
    assert exploratory(ledger, FORESEEN, signers(), PLAN) == []
    assert len(exploratory(ledger, FORESEEN, signers(), OTHER)) == 1


def test_a_contingency_must_be_in_the_plan(ledger):
    with pytest.raises(ConfigError, match="it has: interrupted-run"):
        amend(deviation(1, contingency="bad luck"), ADA, ledger, FORESEEN)
    assert len(ledger.entries()) == 1


def test_a_plan_that_is_not_sealed_is_changed_and_not_amended(ledger):
    with pytest.raises(ConfigError, match="not sealed in this ledger"):
        amend(deviation(1, plan_sha256=OTHER), ADA, ledger, FORESEEN)


@pytest.mark.parametrize(
    ("by", "cause"), [(STRANGER, "no signers file lists"), (GRACE, "by Ada, whose signature")]
)
def test_a_deviation_that_its_author_did_not_sign_is_noticed(ledger, by, cause):
    amend(deviation(1), by, ledger, FORESEEN)
    with pytest.raises(TamperedError, match=f"line 2.*{cause}"):
        read_amendments(ledger.entries(), signers(), PLAN)
    with pytest.raises(TamperedError, match=f"line 2.*{cause}"):
        exploratory(ledger, FORESEEN, signers(), PLAN)


def test_a_deviation_that_was_edited_after_it_was_signed_is_noticed(ledger):
    envelope = amend(deviation(1), ADA, ledger, FORESEEN)
    forged = envelope.model_copy(
        update={"payload": encode_base64(write_statement(deviation(2, what="nothing")))}
    )
    body = {"plan_sha256": PLAN, "deviation_sha256": forged.sha256, "envelope": forged.to_json()}
    ledger.append("amendment", body, at=NOW + 2 * HOUR)
    with pytest.raises(TamperedError, match="does not fit what was signed"):
        exploratory(ledger, FORESEEN, signers(), PLAN)


@pytest.mark.parametrize(
    "changed",
    [
        {"plan_sha256": OTHER},
        {"deviation_sha256": "0" * 64},
        {"envelope": {}},
        {"envelope": None},
    ],
)
def test_a_line_that_is_not_about_its_envelope_is_noticed(ledger, changed):
    amend(deviation(1), ADA, ledger, FORESEEN)
    body = ledger.entries()[-1].body | changed
    ledger.append("amendment", body, at=NOW + 2 * HOUR)
    with pytest.raises(TamperedError):
        exploratory(ledger, FORESEEN, signers(), PLAN)


def test_an_envelope_repeated_at_another_time_is_noticed(ledger):
    amend(deviation(1), ADA, ledger, FORESEEN)
    ledger.append("amendment", ledger.entries()[-1].body, at=NOW + 2 * HOUR)
    with pytest.raises(TamperedError, match="line 3"):
        exploratory(ledger, FORESEEN, signers(), PLAN)
