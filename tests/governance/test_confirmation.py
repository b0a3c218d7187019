"""A confirmation can't be rerun to choose a better draw: not by a kill, not by two at once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode.errors import (
    ConfigError,
    ConfirmationConsumed,
    EvidenceError,
    TamperedError,
    UserError,
)
from specdecode.governance.confirmation import CRASHED, SKIPPED, confirm
from specdecode.governance.opening import open_once
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.spool import RowSpool
from tests.governance.confirmations import ARMS, OTHER_CANDIDATE, build, lost, run
from tests.measurement.factories import OTHER_MANIFEST, record

ROOT = Path(__file__).parents[2]
COUNT = 5


@pytest.fixture
def site(tmp_path):
    made = build(tmp_path, COUNT)
    (tmp_path / "seal.json").write_bytes(made.seal.to_bytes())
    return made


def complete(rows) -> bool:
    return sorted(row.key for row in rows) == sorted(
        (f"p{i}", arm, "greedy") for i in range(COUNT) for arm in ARMS
    )


def test_every_prompt_is_measured_once_and_the_end_is_on_record(site):
    done = site.confirm()
    rows = site.rows()

    assert (done.prompts, done.resumed, done.lost) == (COUNT, 0, 0)
    assert complete(rows)
    assert all(row.error is None for row in rows)
    assert done.rows_sha256 == site.history.complete == rows_sha256(rows)


def test_running_it_again_changes_nothing(site):
    first = site.confirm()
    rows, ledger = site.rows(), site.ledger.path.read_bytes()
    again = site.confirm()

    assert (again.resumed, again.lost, again.rows_sha256) == (COUNT, 0, first.rows_sha256)
    assert site.rows() == rows
    assert site.ledger.path.read_bytes() == ledger


@pytest.mark.parametrize("batch", [2, 5, 9])
def test_prompts_may_be_handed_out_together(site, batch):
    done = site.confirm(batch=batch)

    assert complete(site.rows())
    assert done.lost == 0


# Where a process dies, and how many rows of prompt 2 were safe by then.
KILLS = {
    "before OPENED is in the ledger": 0,
    "before the key is read": 0,
    "before a prompt is decrypted": 0,
    "before the first row": 0,
    "between two rows": 1,
    "after the last row": 2,
    "before the rows are on record": 2,
    "after the rows are on record": 2,
    "before the end": 2,
}

CHILD = """
import os, signal, sys
from pathlib import Path
from specdecode.governance import opening as module
from specdecode.governance.opening import Opening
from specdecode.governance.vault import _Unlocked
from tests.governance import confirmations
from tests.governance.confirmations import ARMS, run, site

where, folder = sys.argv[1], Path(sys.argv[2])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name, condition, after=False):
    real = getattr(owner, name)
    def wrapped(*arguments, **options):
        hit = condition(*arguments)
        if hit and not after:
            die()
        result = real(*arguments, **options)
        if hit:
            die()
        return result
    setattr(owner, name, wrapped)

def dying(after):
    def rows(block):
        for number, row in enumerate(run(block)):
            if block[0].index == 2 and number == after:
                die()
            yield row
        if block[0].index == 2 and after == len(ARMS):
            die()
    return rows

match where:
    case "before OPENED is in the ledger":
        before(Opening, "_append", lambda _self, kind, _body: kind == "opened")
    case "before the key is read":
        before(module, "read_share", lambda _path: True)
    case "before a prompt is decrypted":
        before(_Unlocked, "row", lambda _self, index: index == 2)
    case "before the first row":
        confirmations.run = dying(0)
    case "between two rows":
        confirmations.run = dying(1)
    case "after the last row":
        confirmations.run = dying(2)
    case "before the rows are on record":
        before(Opening, "settle", lambda _self, index, _digest: index == 2)
    case "after the rows are on record":
        before(Opening, "settle", lambda _self, index, _digest: index == 2, after=True)
    case "before the end":
        before(Opening, "complete", lambda _self, _digest: True)
    case "nowhere":
        pass
site(folder).confirm()
"""


def start(site, where):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CHILD, where, str(site.folder)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)


@pytest.mark.parametrize("where", KILLS)
def test_a_killed_run_goes_on_without_drawing_again(site, where):
    killed = start(site, where)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    before, shown = site.rows(), list(site.history.handed_out)

    with pytest.raises(ConfirmationConsumed):
        open_once(site.request(OTHER_CANDIDATE))
    done = site.confirm()
    rows = site.rows()

    assert rows[: len(before)] == before  # what was safe stays, byte for byte
    assert complete(rows)
    assert site.history.handed_out == list(range(COUNT))  # each once
    safe = [row for row in before if row.prompt_id == "p2"]
    gone = [row for row in rows if row.error is not None]
    assert len(safe) == KILLS[where]
    if 2 in shown:
        assert {row.error for row in gone} <= {CRASHED}
        assert {row.key for row in gone} == {("p2", arm, "greedy") for arm in ARMS} - {
            row.key for row in safe
        }
    else:
        assert gone == []
    assert done.lost == bool(gone)
    assert site.history.lost == ([2] if gone else [])


def test_killing_again_and_again_redraws_nothing(site):
    """A later kill costs nothing that was safe, and the first one's loss is not made good."""
    assert start(site, "between two rows").returncode == -signal.SIGKILL
    first = {row.key: row for row in site.rows()}
    for _ in range(2):
        assert start(site, "before the end").returncode == -signal.SIGKILL
    assert start(site, "nowhere").returncode == 0

    last = {row.key: row for row in site.rows()}
    assert {key: last[key] for key in first} == first
    assert [key for key, row in last.items() if row.error] == [("p2", "block", "greedy")]


@given(stops=st.lists(st.integers(0, 3), max_size=6), batch=st.integers(1, 3))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_sequence_of_crashes_no_row_is_ever_drawn_twice(tmp_path_factory, stops, batch):
    """Each stop is the number of rows after which an attempt dies."""
    site = build(tmp_path_factory.mktemp("site"), COUNT)
    drawn: list[tuple[str, str, str]] = []

    def dying(stop):
        def rows(block):
            for number, row in enumerate(run(block)):
                if number == stop:
                    raise KeyboardInterrupt
                drawn.append(row.key)
                yield row

        return rows

    kept: list[object] = []
    for stop in stops:
        with open_once(site.request()) as opening, site.spool() as spool:
            with contextlib.suppress(KeyboardInterrupt):
                confirm(opening, spool, dying(stop), lost, batch=batch)
            rows = spool.records()
        assert rows[: len(kept)] == kept
        kept = rows
    site.confirm(batch=batch)

    assert complete(site.rows())
    assert site.rows()[: len(kept)] == kept
    assert len(drawn) == len(set(drawn))
    lost_rows = {row.key for row in site.rows() if row.error}
    assert not lost_rows & set(drawn)


def compete(folder, candidate, gate, answers):
    from tests.governance.confirmations import site as there

    site = there(folder)
    request = site.request(candidate)
    gate.wait()
    try:
        with open_once(request) as opening:
            list(opening.prompts())
            answers.put(("won", candidate))
            gate.wait()  # nobody leaves before all have tried
    except UserError as error:
        answers.put((type(error).__name__, candidate))
        gate.wait()


@pytest.mark.parametrize("candidates", ["cdef", "cccc"], ids=["rivals", "twins"])
def test_of_openings_at_the_same_time_exactly_one_wins(site, candidates):
    context = multiprocessing.get_context("fork")
    gate, answers = context.Barrier(len(candidates)), context.Queue()
    processes = [
        context.Process(target=compete, args=(site.folder, letter * 64, gate, answers))
        for letter in candidates
    ]
    for process in processes:
        process.start()
    found = [answers.get(timeout=300) for _ in processes]
    for process in processes:
        process.join(timeout=60)

    winners = [candidate for word, candidate in found if word == "won"]
    assert len(winners) == 1
    assert {word for word, _ in found} <= {"won", "UserError", "ConfirmationConsumed"}
    assert site.history.opened.body["candidate_sha256"] == winners[0]
    assert site.history.handed_out == list(range(COUNT))
    if len(set(candidates)) > 1:
        for candidate in {letter * 64 for letter in candidates} - set(winners):
            with pytest.raises(ConfirmationConsumed):
                open_once(site.request(candidate))


class TestRowsThatAreNotWhatTheLedgerHas:
    def stopped(self, site, stop=7):
        def rows(block):
            for row in run(block):
                if len(spool.done) == stop:
                    raise KeyboardInterrupt
                yield row

        with (
            open_once(site.request()) as opening,
            site.spool() as spool,
            pytest.raises(KeyboardInterrupt),
        ):
            confirm(opening, spool, rows, lost)
        return site.folder / "spool" / "rows.jsonl"

    def test_an_edited_row(self, site):
        path = self.stopped(site)
        slow = site.rows()[0].e2e_s
        path.write_text(path.read_text().replace(f'"e2e_s": {slow}', '"e2e_s": 0.25', 1))

        with pytest.raises(TamperedError, match="rows of confirmation prompt 0 are not those"):
            site.confirm()

    def test_a_dropped_row(self, site):
        path = self.stopped(site)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:1] + lines[2:]))

        with pytest.raises(TamperedError, match="rows of confirmation prompt 0"):
            site.confirm()

    def test_all_rows_moved_away(self, site):
        """Also after the end: they can't be measured again."""
        site.confirm()
        (site.folder / "spool" / "rows.jsonl").unlink()

        with pytest.raises(TamperedError, match="can't be measured again"):
            site.confirm()

    def test_rows_of_a_prompt_that_the_ledger_never_handed_out(self, site):
        content = site.ledger.path.read_bytes().splitlines(keepends=True)
        site.confirm()
        lines = site.ledger.path.read_bytes().splitlines(keepends=True)
        site.ledger.path.write_bytes(b"".join(lines[: len(content) + 1 + 2 * 2]))

        with pytest.raises(TamperedError, match=r"never handed out \(p2, p3, p4\)"):
            site.confirm()

    def test_a_row_in_flight_is_lost_and_not_drawn_again(self, site):
        self.stopped(site, stop=3)
        done = site.confirm()

        assert done.lost == 1
        assert [row.key for row in site.rows() if row.error] == [("p1", "block", "greedy")]


def test_a_row_of_another_prompt_is_refused(site):
    def foreign(block):
        yield record("p4", "plain")

    with open_once(site.request()) as opening, site.spool() as spool:
        with pytest.raises(EvidenceError, match="p4/greedy/plain: a row of a prompt"):
            confirm(opening, spool, foreign, lost)
        assert spool.records() == []


def test_a_row_that_the_run_leaves_out_is_a_lost_row(site):
    def lazy(block):
        return [row for row in run(block) if row.prompt_id != "p3"]

    with open_once(site.request()) as opening, site.spool() as spool:
        done = confirm(opening, spool, lazy, lost)

    gone = [row for row in site.rows() if row.error]
    assert {row.key for row in gone} == {("p3", arm, "greedy") for arm in ARMS}
    assert {row.error for row in gone} == {SKIPPED}
    assert (done.lost, site.history.lost) == (1, [3])


def test_a_full_disk_costs_the_prompt_in_flight(site, monkeypatch):
    real = RowSpool.append

    def full(self, row):
        if row.prompt_id == "p1":
            raise OSError(28, "No space left on device")
        real(self, row)

    monkeypatch.setattr(RowSpool, "append", full)
    with pytest.raises(OSError, match="No space"):
        site.confirm()
    monkeypatch.undo()

    assert site.confirm().lost == 1


def test_a_batch_holds_at_least_one_prompt(site):
    with (
        open_once(site.request()) as opening,
        site.spool() as spool,
        pytest.raises(ConfigError, match="at least 1 prompt"),
    ):
        confirm(opening, spool, run, lost, batch=0)
    assert site.history.handed_out == []


def test_rows_of_another_manifest_are_not_taken_for_these(site):
    site.confirm()
    with (
        open_once(site.request()) as opening,
        RowSpool(site.folder / "spool", OTHER_MANIFEST) as spool,
        pytest.raises(TamperedError, match="rows of confirmation prompt 0"),
    ):
        confirm(opening, spool, run, lost)
