"""Whose decisions on a verdict count."""

from __future__ import annotations

import pytest

from specdecode.governance import plan_sha256
from specdecode.governance.dsse import sign_payload
from specdecode.governance.verifier import text_of, verify
from tests.governance.bundles import (
    BUNDLED,
    EXPIRES,
    RULES,
    approval_of,
    case,
    decision_line,
    good,
    seal_of,
    signers_text,
    utc,
)
from tests.governance.keys import ADA, ADA_REVIEWS, GRACE, LINUS, entry
from tests.measurement.factories import run

ASKED = {
    "required_roles": ["operator", "reviewer"],
    "distinct_persons": True,
    "expires_days": 30,
    "signers_file": "plans/signers.yaml",
}
REVIEWER, OPERATOR = (GRACE, "reviewer"), (LINUS, "operator")
MISSING = "an approval as {} by another person is missing"
DECISIONS = {
    "both": ([REVIEWER, OPERATOR], {}, 0, "2 count, 2 asked for"),
    "one": ([REVIEWER], {}, 12, MISSING.format("operator")),
    "none": ([], {}, 12, MISSING.format("operator, reviewer")),
    "by who sealed it": ([(ADA_REVIEWS, "reviewer"), OPERATOR], {}, 12, MISSING.format("reviewer")),
    "in a role of another": ([(GRACE, "operator")], {}, 12, "which they are not"),
    "a rejection beside them": ([REVIEWER, OPERATOR, (ADA, "owner")],
                                {"decision": "reject", "reason": "too slow"}, 12, "too slow"),
    "an override in place of one": ([OPERATOR, REVIEWER],
                                    {"decision": "override", "reason": "hurry"}, 12,
                                    MISSING.format("reviewer")),
    "an override beside them": ([REVIEWER, OPERATOR, (ADA, "owner")],
                                {"decision": "override", "reason": "hurry"}, 12, "no GO"),
    "an expired one": ([OPERATOR, REVIEWER], {"expires": utc(BUNDLED)}, 12, "had expired"),
    "one signed later": ([OPERATOR, REVIEWER], {"at": utc(EXPIRES)}, 12, "signed later"),
}  # fmt: skip


@pytest.mark.parametrize("name", DECISIONS)
def test_approvals_are_those_that_the_plan_asks_for(tmp_path, name):
    given_, last, code, cause = DECISIONS[name]
    made = case(RULES[0], approvals=ASKED)
    changes = [{}] * (len(given_) - 1) + [last]
    own = made.verdict_sha256
    signed = [approval_of(own, key, role=role, **change)
              for (key, role), change in zip(given_, changes, strict=False)]  # fmt: skip
    ledger = made.ledger(decisions=[decision_line(one, own) for one in signed])

    verification = verify(made.write(tmp_path, approvals=signed, ledger=ledger))

    assert verification["exit_code"] == code, text_of(verification)
    assert cause in text_of(verification)


@pytest.mark.parametrize(("distinct", "code"), [(True, 12), (False, 0)])
def test_one_person_with_two_keys_is_not_two_people(tmp_path, distinct, code):
    made = case(RULES[0], approvals=ASKED | {"distinct_persons": distinct})
    listed = signers_text(entry("Ada", "owner", ADA), entry("Grace", "reviewer", GRACE),
                          entry("Grace", "operator", LINUS))  # fmt: skip
    seal = seal_of(plan_sha256(made.plan), signers=listed)
    own = made.verdict_sha256
    signed = [approval_of(own, key, role=role) for key, role in (REVIEWER, OPERATOR)]
    ledger = made.ledger(seal=seal, decisions=[decision_line(one, own) for one in signed])

    path = made.write(tmp_path, approvals=signed, ledger=ledger, seal=seal, signers_text=listed)

    assert verify(path)["exit_code"] == code


def test_none_of_two_who_sealed_the_plan_can_approve(tmp_path):
    made = case(RULES[0], approvals=ASKED)
    seal = sign_payload(made.seal.body, ADA, GRACE)
    own = made.verdict_sha256
    signed = [approval_of(own, key, role=role) for key, role in (REVIEWER, OPERATOR)]
    ledger = made.ledger(seal=seal, decisions=[decision_line(one, own) for one in signed])

    verification = verify(made.write(tmp_path, approvals=signed, ledger=ledger, seal=seal))

    assert verification["exit_code"] == 12
    assert MISSING.format("reviewer") in text_of(verification)


def test_an_override_stays_what_it_overrides(tmp_path):
    made = case(RULES[0], rows=run(24, speed=0.8))
    over = approval_of(made.verdict_sha256, decision="override", reason="hurry")
    ledger = made.ledger(decisions=[decision_line(over, made.verdict_sha256, "override")])

    verification = verify(made.write(tmp_path, ledger=ledger, approvals=[over]))

    assert verification["exit_code"] == 10
    assert "OVERRIDDEN" in text_of(verification)


def test_a_decision_on_record_cannot_be_left_out(tmp_path):
    no = approval_of(good().verdict_sha256, decision="reject", reason="no")
    ledger = good().ledger(decisions=[decision_line(no, good().verdict_sha256)])

    verification = verify(good().write(tmp_path, approvals=(), ledger=ledger))

    assert verification["exit_code"] == 3
    assert "the ledger has 1 decisions on this verdict, the bundle 0" in text_of(verification)
