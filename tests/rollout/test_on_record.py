"""No client has an answer of a request of which a crash would leave nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from specdecode.rollout import recording, spool_segment
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_ticket import Patience, Ticket
from tests.rollout.factories import asked
from tests.rollout.routers import eventually, routing
from tests.rollout.scripts import replying, routes
from tests.wire.replies import error_reply
from tests.wire.server import WireServer

AT_LAST = 60.0


class Disk:
    """A disk that takes no line while it is held."""

    def __init__(self, monkeypatch) -> None:
        self._free, self._real = threading.Event(), os.pwrite
        self._free.set()
        self.waits = threading.Event()
        monkeypatch.setattr(spool_segment.os, "pwrite", self._write)

    def hold(self):
        self._free.clear()

    def let_go(self):
        self._free.set()

    def _write(self, handle, data, place):
        if not self._free.is_set():
            self.waits.set()
            assert self._free.wait(AT_LAST)
        return self._real(handle, data, place)


@pytest.fixture
def disk(monkeypatch):
    found = Disk(monkeypatch)
    yield found
    found.let_go()


@contextlib.contextmanager
def answering(folder, mode, candidate=None, **settings):
    with (
        WireServer(routes(replying("from the baseline"))) as first,
        WireServer(routes(candidate or replying("from the candidate"))) as second,
        routing(first.url, second.url, folder, mode, **settings) as router,
    ):
        yield router


def begun(router):
    """Arms whose first line a crash at this moment would leave."""
    return [line["asked"]["arm"] for line in router.lines("begin")]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "case",
    [
        ("shadow", None, "plain"),
        ("canary", None, "block"),
        ("canary", error_reply(500, "broken"), "block"),
    ],
    ids=["shadow", "canary", "fallback"],
)
def test_an_answer_waits_for_its_line(tmp_path, disk, case, stream):
    # It did not: the client had its answer, a kill came, and no row was left of the request.
    mode, candidate, arm = case
    with (
        answering(tmp_path, mode, candidate, record_s=AT_LAST) as router,
        ThreadPoolExecutor(1) as pool,
    ):
        disk.hold()
        answer = pool.submit(router.ask, stream=stream)
        assert disk.waits.wait(AT_LAST)
        with pytest.raises(TimeoutError):
            answer.result(0.2)
        disk.let_go()

        assert answer.result(AT_LAST).status_code == 200
        assert arm in begun(router)
        assert router.health["ahead_of_record"] == 0


def test_a_server_that_does_not_answer_is_on_record_before_the_client_hears_of_it(tmp_path, disk):
    with (
        routing("http://127.0.0.1:9", "http://127.0.0.1:9", tmp_path, "canary", 0.0,
                record_s=AT_LAST) as router,
        ThreadPoolExecutor(1) as pool,
    ):  # fmt: skip
        disk.hold()
        answer = pool.submit(router.ask)
        assert disk.waits.wait(AT_LAST)
        with pytest.raises(TimeoutError):
            answer.result(0.2)
        disk.let_go()

        assert answer.result(AT_LAST).status_code == 502
        assert begun(router) == ["plain"]


def test_a_disk_that_hangs_keeps_no_user_waiting(tmp_path, disk, monkeypatch):
    patience = Patience(0.05)
    monkeypatch.setattr(recording, "Patience", lambda _most_s: patience)
    with answering(tmp_path, "canary") as router:
        disk.hold()
        answers = [router.ask(number) for number in range(3)]

        assert {answer.status_code for answer in answers} == {200}
        assert router.health["ahead_of_record"] == 3
        assert router.metric("ahead_of_record") == 3
        disk.let_go()
        eventually(lambda: len(begun(router)) == 3)
        patience._most_s = AT_LAST  # this time a slow machine is not to look like a disk that hangs
        router.ask("again")
        assert router.health["ahead_of_record"] == 3


class Writer:
    """Writes what a test says."""

    def __init__(self):
        self.written, self.stuck = 0, False


@pytest.fixture
def writer():
    return Writer()


class TestPatience:
    def test_what_is_written_is_not_waited_for(self, writer):
        writer.written, patience = 1, Patience(0.0)
        asyncio.run(patience.wait(Ticket(writer, 1)))

        assert patience.ahead == 0

    def test_only_one_waits_for_a_disk_that_hangs(self, writer, monkeypatch):
        waited = []

        async def wait(ticket, patience_s):
            waited.append(ticket)
            return ticket.written

        monkeypatch.setattr(Ticket, "wait", wait)
        patience = Patience()
        for number in (1, 2, 3):
            asyncio.run(patience.wait(Ticket(writer, number)))
        writer.written = 1
        asyncio.run(patience.wait(Ticket(writer, 4)))

        assert (patience.ahead, len(waited)) == (4, 2)

    def test_nothing_is_expected_of_a_disk_that_failed(self, writer):
        writer.stuck = True

        assert asyncio.run(Ticket(writer, 1).wait(float("inf"))) is False

    def test_nothing_is_expected_of_a_line_that_was_not_taken(self, writer):
        assert asyncio.run(Ticket(writer, None).wait(float("inf"))) is False

    def test_what_is_written_meanwhile_is_noticed(self, writer):
        async def scene():
            waiting = asyncio.create_task(Ticket(writer, 1).wait(AT_LAST))
            await asyncio.sleep(0.01)
            writer.written = 1
            return await waiting

        assert asyncio.run(scene()) is True


def test_a_ticket_of_a_spool_says_what_is_in_the_file(tmp_path, disk):
    with Spool(tmp_path) as spool:
        disk.hold()
        ticket = spool.begin(asked(1))
        assert disk.waits.wait(AT_LAST)
        assert not ticket.written
        disk.let_go()
        assert asyncio.run(ticket.wait(AT_LAST))
        open_one = next(tmp_path.glob("open-*.jsonl"))
        assert b'"begin"' in open_one.read_bytes()

    assert not spool.begin(asked(2)).written
