"""What people and automations are told of an action, and that nothing waits for it."""

from __future__ import annotations

import logging

import pytest

from pipelines.flows.telling import Teller
from specdecode.governance import decide
from specdecode.governance.ladder_actions import AskApproval, Hold, RollBack, SetState
from specdecode.governance.ladder_facts import Place
from tests.governance.live.streams import shadow
from tests.pipelines.releases import MANIFEST, broken, perfect, release_plan

PLAN = release_plan()
SHADOW = Place("shadow")
VERDICT = decide(PLAN.at("shadow"), shadow(60, broken, perfect))
BACK = RollBack(reason="shadow: NO_GO: errors", owner="the team on duty")


@pytest.fixture
def sent(monkeypatch):
    """Events, as they would go to Prefect."""
    found = []

    def verdict(document, **fields):
        told = {name: document[name] for name in ("status", "manifest_sha256")}
        found.append(("verdict", told | fields))

    def escalation(subject, reasons, **fields):
        found.append(("escalation", {"subject": subject, "reasons": reasons} | fields))

    monkeypatch.setattr("pipelines.flows.telling.emit_verdict", verdict)
    monkeypatch.setattr("pipelines.flows.telling.emit_escalation", escalation)
    return found


@pytest.fixture
def tell():
    return Teller(PLAN, MANIFEST, logging.getLogger("telling"))


def test_a_roll_back_is_told_with_its_verdict_its_owner_and_what_was_done(tell, sent):
    tell(SHADOW, BACK, VERDICT)

    (first, told), (second, asked) = sent
    assert (first, second) == ("verdict", "escalation")
    assert (told["status"], told["stage"], told["owner"]) == (
        "NO_GO", "shadow", "the team on duty")  # fmt: skip
    assert told["recovery"] == asked["recovery"] == "rolled back"
    assert asked["reasons"] == ["shadow: NO_GO: errors"]


def test_rows_that_no_manifest_can_be_read_from_are_told_of_as_of_this_release(tell, sent):
    unreadable = VERDICT.model_copy(update={"manifest_sha256": None})
    tell(SHADOW, BACK, unreadable)

    assert sent[0][1]["manifest_sha256"] == MANIFEST


def test_a_step_up_calls_nobody_and_a_question_does(tell, sent):
    tell(SHADOW, SetState(reason="GO", owner="o", mode="canary", share=0.05,
                          expected_version=1), VERDICT)  # fmt: skip
    assert [kind for kind, _ in sent] == ["verdict"]
    sent.clear()
    tell(None, AskApproval(reason="sign", owner="o", verdict_sha256="a" * 64, roles=("x",)), None)
    tell(None, Hold(reason="stuck", owner="o", ended=True), None)
    assert [told["recovery"] for _, told in sent] == ["sign the verdict", "decide how to go on"]


def test_a_server_that_takes_no_event_is_a_line_in_the_log(tell, monkeypatch, caplog):
    def away(*_args, **_kwargs):
        raise ConnectionError("no server")

    monkeypatch.setattr("pipelines.flows.telling.emit_escalation", away)
    monkeypatch.setattr("pipelines.flows.telling.emit_verdict", away)
    tell(SHADOW, BACK, VERDICT)

    assert "nobody could be told" in caplog.text
    assert "no server" in caplog.text
