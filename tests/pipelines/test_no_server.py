"""No test starts a Prefect server by the way: it would go on after the last of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL, temporary_settings

from pipelines.flows.events import emit_verdict

SERVER = "prefect.server.api.server.SubprocessASGIServer.start"


@flow
def nothing() -> None:
    """Does nothing."""


@pytest.fixture(autouse=True)
def started(monkeypatch):
    """Every server that would have been."""
    found = []
    monkeypatch.setattr(SERVER, lambda *_args, **_more: found.append(1))
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        yield found


@pytest.mark.parametrize(
    "ask",
    [lambda: get_client(sync_client=True), get_client, nothing],
    ids=["sync-client", "client", "flow"],
)
def test_whoever_needs_one_is_told_to_name_it(ask, started):
    with pytest.raises(ValueError, match="PREFECT_API_URL"):
        ask()

    assert not started


def test_an_event_goes_nowhere(started):
    emit_event("a.test", resource={"prefect.resource.id": "a.test"})
    emit_verdict({"status": "GO"}, stage="shadow", step=None, owner="o", recovery="none")

    assert not started


def test_programs_that_tests_start_inherit_it():
    script = (
        "from prefect.events.worker import should_emit_events\n"
        "from prefect.settings import get_current_settings\n"
        "print(get_current_settings().server.ephemeral.enabled, should_emit_events())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert done.stdout.split() == [b"False", b"False"]
