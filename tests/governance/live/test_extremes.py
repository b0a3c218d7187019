"""Metrics of a live stage that cannot be computed."""

from __future__ import annotations

from importlib import import_module

import pytest

from specdecode.governance import Outcome, Status
from specdecode.governance.verifier import verify
from tests.governance.live.streams import judged, live_plan, shadow
from tests.governance.live.test_verifier import bundle_of


@pytest.fixture(autouse=True)
def _broken(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(import_module("specdecode.governance.decide"), "judge_metrics", broken)


def test_metrics_that_cannot_be_computed_are_invalid_and_no_crash():
    verdict = judged(live_plan(), "shadow", shadow(60))

    assert verdict.status is Status.INVALID
    assert "metrics_computed: the metrics could not be computed" in verdict.reasons[-1]
    assert {e.outcome for e in verdict.rules if e.role != "integrity"} == {Outcome.NOT_EVALUATED}


def test_the_verifier_agrees(tmp_path):
    found = verify(bundle_of(live_plan(), "shadow", shadow(60)).write(tmp_path))

    assert found["status"] == "INVALID"
    assert {check["result"] for check in found["checks"]} == {"ok"}
