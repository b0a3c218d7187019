"""The journal: durable, in order, and honest about what a crash left."""

from __future__ import annotations

import multiprocessing
from datetime import UTC, datetime

import pytest

from pipelines.flows.history import history_of
from pipelines.flows.journal import AnotherRunError, Journal
from specdecode.errors import EvidenceError, TamperedError

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal.jsonl", lambda: AT)


def test_lines_come_back_as_they_were_written(journal):
    assert journal.lines() == []
    journal.write("decided", "canary-0.05-ab", action="SetState", share=0.05)
    journal.write("done", "canary-0.05-ab", action="SetState", version=4)

    first, second = journal.lines()
    assert (first.number, first.event, first.details["share"]) == (0, "decided", 0.05)
    assert (second.number, second.at, second.key) == (1, "2026-01-01T00:00:00Z", "canary-0.05-ab")


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0].replace(b"0.05", b"0.50"), *lines[1:]],
        lambda lines: lines[1:],
        lambda lines: [lines[1], lines[0], lines[2]],
        lambda lines: [lines[0], lines[2]],
        lambda lines: [b"{}", *lines[1:]],
        lambda lines: [lines[0] + b" ", *lines[1:]],
    ],
    ids=["edited", "cut in front", "exchanged", "taken out", "another object", "spelled otherwise"],
)
def test_a_change_shows(journal, change):
    for share in (0.05, 0.25, 0.5):
        journal.write("decided", "k", share=share)
    lines = journal.path.read_bytes().splitlines()
    journal.path.write_bytes(b"".join(line + b"\n" for line in change(lines)))

    with pytest.raises(TamperedError, match=r"line \d"):
        journal.lines()


def test_a_torn_end_is_kept_aside_and_the_journal_goes_on(journal):
    journal.write("decided", "k", share=0.05)
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + b'{"at":"2026')
    assert len(journal.lines()) == 1
    with pytest.raises(EvidenceError, match="torn"):
        journal.write("done", "k")

    with journal.alone():
        journal.write("done", "k")

    assert [line.event for line in journal.lines()] == ["decided", "done"]
    aside = list(journal.path.parent.glob("*.torn-*"))
    assert [path.read_bytes() for path in aside] == [b'{"at":"2026']


def test_a_disk_that_is_full_leaves_the_journal_as_it_was(journal, monkeypatch):
    journal.write("decided", "k")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipelines.flows.journal.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        journal.write("done", "k")
    monkeypatch.undo()

    assert [line.event for line in journal.lines()] == ["decided"]
    journal.write("done", "k")
    assert len(journal.lines()) == 2


def _hold(path, held, end):
    with Journal(path).alone():
        held.set()
        end.wait(60)


def test_only_one_run_has_it_and_a_dead_one_gives_it_free(journal):
    context = multiprocessing.get_context("spawn")
    held, end = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(journal.path, held, end))
    process.start()
    try:
        assert held.wait(60)
        with pytest.raises(AnotherRunError), journal.alone():
            pass
    finally:
        process.kill()
        process.join()
    with journal.alone():
        journal.write("held", "k", reason="it is free")


def test_history_knows_what_is_open_and_what_is_over(journal):
    up = {"action": "SetState", "reason": "r"}
    assert history_of([]).pending is None
    journal.write("decided", "a", **up)
    assert history_of(journal.lines()).pending.key == "a"
    journal.write("done", "a", **up)
    history = history_of(journal.lines())
    assert (history.pending, history.untold.key, history.begun) == (None, "a", True)
    journal.write("told", "a", action="SetState")
    journal.write("decided", "w", action="Promote", reason="r", verdict_sha256="c" * 64)
    assert history_of(journal.lines()).promoting == "c" * 64
    journal.write("done", "w", action="Promote", reason="r")
    assert history_of(journal.lines()).promoted
    journal.write("decided", "w", action="RollBack", reason="an alarm")
    journal.write("done", "w", action="RollBack", reason="an alarm")
    history = history_of(journal.lines())
    assert (history.closed, history.promoted, history.promoting) == ("an alarm", False, None)
