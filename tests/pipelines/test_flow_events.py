"""Events carry what automations and people need, and are the same when they are told again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect.events import Event, utilities
from prefect.events.clients import AssertingEventsClient

from pipelines.flows import events

VERDICT = {
    "status": "NO_GO",
    "plan_name": "a-plan",
    "plan_sha256": "a" * 64,
    "manifest_sha256": "b" * 64,
    "rows_sha256": "c" * 64,
    "rows": 12,
    "reasons": ["block-lossless: biased after 30 tokens"],
}


@pytest.fixture
def told(monkeypatch):
    """What would have gone to a server."""
    sent = []
    monkeypatch.setattr(events, "emit_event", lambda event, **words: sent.append((event, words)))
    return sent


def emit(verdict=VERDICT, **words):
    given_words = {
        "stage": "canary",
        "step": "0.05",
        "owner": "release manager",
        "recovery": "roll_back",
    }
    return events.emit_verdict(verdict, **given_words | words)


def test_a_verdict_carries_the_labels_that_automations_match(told) -> None:
    emit()

    [(name, words)] = told
    assert name == "specdecode.verdict"
    assert words["resource"]["prefect.resource.id"] == "specdecode.release." + "b" * 64
    assert words["resource"][events.STATUS_LABEL] == "NO_GO"
    assert words["resource"][events.STAGE_LABEL] == "canary"


def test_its_text_names_the_owner_the_recovery_and_the_reason(told) -> None:
    emit()

    text = told[0][1]["payload"]["text"]
    assert text.splitlines() == [
        "NO_GO at canary 0.05: a-plan",
        "Owner: release manager",
        "Recovery: roll_back",
        "- block-lossless: biased after 30 tokens",
    ]


def test_told_again_it_is_the_same_event_and_another_one_is_not(told) -> None:
    first = emit()

    assert emit() == first
    assert told[0][1]["id"] == told[1][1]["id"] == first
    others = [
        emit(step="0.25"),
        emit(stage="watch"),
        emit({**VERDICT, "rows_sha256": "d" * 64}),
        emit({**VERDICT, "status": "GO"}),
        events.emit_escalation("x", [], owner="a", recovery="hold"),
    ]
    assert len({first, *others}) == 1 + len(others)


def test_an_escalation_says_who_is_to_act(told) -> None:
    events.emit_escalation(
        "an approval is wanted",
        ["canary 0.05 is GO"],
        owner="head of inference",
        recovery="sign with `specdecode approve`",
        stage="canary",
    )

    [(name, words)] = told
    assert name == "specdecode.escalation"
    assert "Owner: head of inference" in words["payload"]["text"]
    assert words["resource"]["prefect.resource.id"] == "specdecode.release.unknown"


@given(reasons=st.lists(st.text(max_size=3000), max_size=40))
def test_an_event_stays_small_and_says_what_it_left_out(reasons: list[str]) -> None:
    text = events.escalation_text("subject", reasons, owner="o", recovery="r")

    assert len(text) < 8000
    if len(reasons) > events.MOST_REASONS:
        assert text.endswith(f"and {len(reasons) - events.MOST_REASONS} more")


class Wire:
    """Stands where Prefect's worker of events would be."""

    client_type = AssertingEventsClient

    def __init__(self) -> None:
        self.sent: list[Event] = []

    def send(self, event: Event) -> None:
        self.sent.append(event)


def test_prefect_accepts_the_event(monkeypatch) -> None:
    """The library's own model of an event, without a server."""
    wire = Wire()
    monkeypatch.setattr(utilities, "should_emit_events", lambda: True)
    monkeypatch.setattr(utilities.EventsWorker, "instance", lambda *_: wire)

    identifier = emit({**VERDICT, "reasons": ["x" * 10_000] * 100})

    assert [event.id for event in wire.sent] == [identifier]
    assert json.loads(wire.sent[0].model_dump_json())["payload"]["owner"] == "release manager"
