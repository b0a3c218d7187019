"""in-toto statements: their form, and what is not one."""

from __future__ import annotations

import json

import pytest

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.canonical import canonical_bytes
from specdecode.governance.dsse import sign_payload
from specdecode.governance.statements import (
    Approval,
    Deviation,
    PlanSeal,
    Predicate,
    VerdictRecord,
    make_predicate,
    read_statement,
    write_statement,
)
from tests.governance.keys import ADA

A, B, C = "a" * 64, "b" * 64, "c" * 64
AT, LATER = "2026-11-30T04:00:00Z", "2026-12-30T04:00:00Z"

PREDICATES = [
    PlanSeal(
        plan_sha256=A,
        plan_name="small",
        at=AT,
        tree_clean=True,
        confirmation_opened=False,
        power=0.9,
        power_wanted=0.8,
        power_basis="200 runs",
        anchor="none",
    ),
    Deviation(
        plan_sha256=A,
        when=AT,
        stage="offline",
        what="a prompt is left out",
        why="it crashed",
        data_seen="none",
        impact="none",
        author="Ada",
    ),
    Approval(verdict_sha256=A, decision="approve", role="owner", at=AT, expires=LATER),
    VerdictRecord(verdict_sha256=A, plan_sha256=B, status="GO", at=AT),
]


def test_a_kind_of_statement_that_names_no_subject_cannot_be_made():
    class Silent(Predicate):
        uri = "https://specdecode.dev/silent/v1"

    for kind in (Predicate, Silent):
        with pytest.raises(TypeError, match="named"):
            kind()
        with pytest.raises(TypeError, match="named"):
            make_predicate(kind)


def test_a_statement_has_the_form_of_in_toto():
    document = json.loads(write_statement(PREDICATES[2], {"rows": B}))
    assert document == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "rows", "digest": {"sha256": B}},
            {"name": "verdict", "digest": {"sha256": A}},
        ],
        "predicateType": "https://specdecode.dev/approval/v1",
        "predicate": {
            "verdict_sha256": A,
            "decision": "approve",
            "role": "owner",
            "at": AT,
            "expires": LATER,
            "reason": None,
        },
    }


@pytest.mark.parametrize("predicate", PREDICATES)
def test_what_was_signed_is_read_back(predicate):
    envelope = sign_payload(write_statement(predicate, {"other": C}), ADA)
    found, subjects = read_statement(envelope, type(predicate))
    assert found == predicate
    assert subjects == {**predicate.named(), "other": C}


@pytest.mark.parametrize("predicate", PREDICATES)
def test_one_kind_is_never_read_as_another(predicate):
    envelope = sign_payload(write_statement(predicate), ADA)
    for other in {type(p) for p in PREDICATES} - {type(predicate)}:
        with pytest.raises(TamperedError, match=predicate.uri):
            read_statement(envelope, other)


def _changed(**fields):
    return canonical_bytes(json.loads(write_statement(PREDICATES[0])) | fields)


SUBJECT = {"name": "plan", "digest": {"sha256": A}}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        write_statement(PREDICATES[0]) + b" ",
        _changed(_type="https://in-toto.io/Statement/v0.1"),
        _changed(subject=[]),
        _changed(subject=[SUBJECT, SUBJECT]),
        _changed(subject=[SUBJECT | {"digest": {"sha256": B}}]),
        _changed(subject=[SUBJECT | {"name": "another"}]),
        _changed(subject=[SUBJECT | {"digest": {"sha1": A}}]),
        _changed(predicate={}),
        _changed(predicate=PREDICATES[0].model_dump() | {"tree_clean": False}),
        _changed(predicate=PREDICATES[0].model_dump() | {"confirmation_opened": True}),
        _changed(predicate=PREDICATES[0].model_dump() | {"more": 1}),
        _changed(more=1),
    ],
)
def test_other_payloads_are_refused(payload):
    with pytest.raises(TamperedError):
        read_statement(sign_payload(payload, ADA), PlanSeal)


@pytest.mark.parametrize("subjects", [{"plan": B}, {"lock": "abc"}, {"lock": A.upper()}, {"": A}])
def test_subjects_that_contradict_or_are_no_digests_are_refused(subjects):
    with pytest.raises(ConfigError):
        write_statement(PREDICATES[0], subjects)


def test_an_approval_ends_after_it_begins_and_a_refusal_says_why():
    fields = {"verdict_sha256": A, "decision": "approve", "role": "owner", "at": AT}
    with pytest.raises(ConfigError, match="expires"):
        make_predicate(Approval, **fields, expires=AT)
    for decision in ("reject", "override"):
        with pytest.raises(ConfigError, match="reason"):
            make_predicate(Approval, **fields | {"decision": decision}, expires=LATER)


def test_a_wrong_field_is_named():
    with pytest.raises(ConfigError, match="data_seen"):
        make_predicate(Deviation, **PREDICATES[1].model_dump() | {"data_seen": "a little"})
