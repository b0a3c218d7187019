"""The ledger: what it notices, what it refuses, and that no line is ever lost."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import threading
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance import ledger as ledger_module
from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.chain import EMPTY_HEAD, Fault
from specdecode.governance.ledger import Ledger, repair_ledger, verify_ledger
from tests.governance.keys import HOUR, NOW

LINES = 4


def written(path, lines: int = LINES) -> bytes:
    ledger = Ledger(path)
    for number in range(lines):
        ledger.append("progress", {"index": number, "share": 0.5}, at=NOW + number * HOUR)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "plans" / "ledger.jsonl"


@pytest.fixture
def content(path):
    return written(path)


def lines_of(content: bytes) -> list[bytes]:
    return content.split(b"\n")[:-1]


def joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def forged(lines: list[bytes], number: int, **fields: object) -> list[bytes]:
    """`lines` with fields of one replaced, in canonical form."""
    changed = canonical_bytes(json.loads(lines[number]) | fields)
    return [*lines[:number], changed, *lines[number + 1 :]]


def chained(lines: list[bytes], previous: str = EMPTY_HEAD) -> list[bytes]:
    """The lines numbered and chained anew, as a forger with the file would."""
    made: list[bytes] = []
    for number, line in enumerate(lines):
        fields = {"sequence": number, "previous": previous}
        made.append(canonical_bytes(json.loads(line) | fields))
        previous = sha256_hex(made[-1])
    return made


def test_lines_are_as_specified(content):
    first, second = lines_of(content)[:2]
    assert first == (
        b'{"at":"2026-11-30T04:00:00Z","body":{"index":0,"share":0.5},"kind":"progress",'
        b'"previous":"' + b"0" * 64 + b'","sequence":0}'
    )
    assert json.loads(second)["previous"] == sha256_hex(first)


def test_an_intact_ledger_verifies_and_its_head_is_the_last_lines_hash(path, content):
    chain = verify_ledger(path)
    assert chain.problem is None
    assert chain.head == sha256_hex(lines_of(content)[-1]) == Ledger(path).head
    assert [entry.body["index"] for entry in chain.entries] == list(range(LINES))
    assert verify_ledger(content) == chain


def test_an_empty_ledger_is_intact(path):
    assert verify_ledger(b"").head == EMPTY_HEAD
    assert Ledger(path).entries() == ()


def test_every_changed_bit_is_noticed_given_the_head(content):
    head = verify_ledger(content).head
    for position in range(len(content) * 8):
        changed = bytearray(content)
        changed[position // 8] ^= 1 << position % 8
        assert verify_ledger(bytes(changed), head).problem is not None, position


def test_every_changed_bit_before_the_last_line_is_noticed_without_the_head(content):
    for position in range((len(content) - len(lines_of(content)[-1]) - 1) * 8):
        changed = bytearray(content)
        changed[position // 8] ^= 1 << position % 8
        assert verify_ledger(bytes(changed)).problem is not None, position


def test_every_cut_is_noticed_given_the_head(content):
    head = verify_ledger(content).head
    for end in range(len(content)):
        assert verify_ledger(content[:end], head).problem is not None, end


@pytest.mark.parametrize("number", range(LINES))
def test_an_edited_line_is_named(content, number):
    lines = forged(lines_of(content), number, body={"index": 7})
    problem = verify_ledger(joined(lines), verify_ledger(content).head).problem
    last = number == LINES - 1  # nothing below it: the same as a cut
    assert (problem.line, problem.fault) == (
        number + 1,
        Fault.TRUNCATED if last else Fault.EDITED,
    )


@pytest.mark.parametrize("number", range(LINES - 1))
@pytest.mark.parametrize("field", [{"previous": "f" * 64}, {"sequence": 9}, {"kind": "nothing"}])
def test_an_edited_field_of_the_chain_itself_is_named(content, number, field):
    lines = forged(lines_of(content), number, **field)
    problem = verify_ledger(joined(lines)).problem
    assert (problem.line, problem.fault) == (number + 1, Fault.EDITED)


def test_another_spelling_of_a_line_is_an_edit(content):
    lines = lines_of(content)
    lines[1] = json.dumps(json.loads(lines[1])).encode()
    problem = verify_ledger(joined(lines)).problem
    assert (problem.line, problem.fault) == (2, Fault.EDITED)
    assert "canonical" in problem.message


def test_exchanged_lines_are_reordered(content):
    a, b, c, d = lines_of(content)
    problem = verify_ledger(joined([a, c, b, d])).problem
    assert (problem.line, problem.fault) == (2, Fault.REORDERED)


def test_a_line_taken_out_is_missed(content):
    a, _, c, d = lines_of(content)
    problem = verify_ledger(joined([a, c, d])).problem
    assert (problem.line, problem.fault) == (2, Fault.REMOVED)
    assert "entry 1 is missing" in problem.message


@pytest.mark.parametrize("kept", range(LINES))
def test_a_ledger_cut_at_a_line_needs_an_anchored_head_to_show(content, kept):
    cut = joined(lines_of(content)[:kept])
    assert verify_ledger(cut).problem is None
    problem = verify_ledger(cut, verify_ledger(content).head).problem
    assert (problem.line, problem.fault) == (max(kept, 1), Fault.TRUNCATED)


def test_a_ledger_written_anew_needs_an_anchored_head_to_show(content):
    anew = joined(chained(forged(lines_of(content), 1, body={"index": 7})))
    assert verify_ledger(anew).problem is None
    assert verify_ledger(anew, verify_ledger(content).head).problem.fault is Fault.TRUNCATED


def test_a_ledger_cut_at_its_beginning_is_noticed(content):
    cut = joined(chained(lines_of(content)[1:], previous=sha256_hex(lines_of(content)[0])))
    problem = verify_ledger(cut).problem
    assert (problem.line, problem.fault) == (1, Fault.EDITED)
    assert "names a line before it" in problem.message


def test_a_ledger_goes_on_after_its_head_was_anchored(path, content):
    head = verify_ledger(content).head
    Ledger(path).append("verdict", {}, at=NOW + 9 * HOUR)
    assert verify_ledger(path, head).problem is None


def test_a_back_dated_line_is_noticed_though_the_chain_fits(content):
    lines = chained(forged(lines_of(content), 2, at="2026-11-30T04:59:59Z"))
    problem = verify_ledger(joined(lines)).problem
    assert (problem.line, problem.fault) == (3, Fault.BACK_DATED)


@given(st.lists(st.integers(0, LINES - 1), max_size=6))
def test_only_the_first_lines_in_order_are_a_ledger(tmp_path_factory, picked):
    content = written(tmp_path_factory.mktemp("ledger") / "ledger.jsonl")
    lines = lines_of(content)
    problem = verify_ledger(joined([lines[number] for number in picked])).problem
    assert (problem is None) == (picked == list(range(len(picked))))


def test_nothing_is_appended_to_a_broken_ledger(path, content):
    path.write_bytes(joined(forged(lines_of(content), 1, body={})))
    before = path.read_bytes()
    with pytest.raises(TamperedError, match="line 2: edited"):
        Ledger(path).append("progress", {})
    assert path.read_bytes() == before


def test_a_writer_notices_what_was_edited_since_its_last_line(path):
    ledger = Ledger(path)
    for number in range(3):
        ledger.append("progress", {"index": number})
    path.write_bytes(joined(forged(lines_of(path.read_bytes()), 0, body={})))
    with pytest.raises(TamperedError, match="line 1: edited"):
        ledger.append("progress", {})


def test_a_line_cut_by_a_crash_is_reported_and_repaired_only_when_asked(path, content):
    path.write_bytes(content[:-10])
    problem = verify_ledger(path).problem
    assert (problem.line, problem.fault) == (LINES, Fault.PARTIAL)
    with pytest.raises(TamperedError, match="specdecode ledger repair"):
        Ledger(path).append("progress", {})

    aside = repair_ledger(path)

    kept = joined(lines_of(content)[:-1])
    assert path.read_bytes() == kept
    assert kept + aside.read_bytes() == content[:-10]
    assert repair_ledger(path) is None
    Ledger(path).append("progress", {}, at=NOW + 9 * HOUR)
    assert verify_ledger(path).problem is None


def test_repair_touches_nothing_that_was_edited(path, content):
    path.write_bytes(joined(forged(lines_of(content), 1, body={})) + b"half")
    before = path.read_bytes()
    with pytest.raises(TamperedError, match="line 2: edited"):
        repair_ledger(path)
    assert path.read_bytes() == before


def test_a_full_disk_leaves_the_ledger_as_it_was(path, content, monkeypatch):
    write = os.write

    def half(descriptor, data):
        write(descriptor, bytes(data)[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ledger_module.os, "write", half)
    with pytest.raises(OSError, match="No space"):
        Ledger(path).append("progress", {}, at=NOW + 9 * HOUR)
    assert path.read_bytes() == content


def test_lines_are_written_whole_though_the_system_writes_parts(path, monkeypatch):
    write = os.write
    monkeypatch.setattr(ledger_module.os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    written(path)
    assert len(verify_ledger(path).entries) == LINES


def test_file_and_folder_are_synced_before_append_returns(path, monkeypatch):
    synced = []
    monkeypatch.setattr(ledger_module.os, "fsync", lambda _: synced.append(path.read_bytes()))
    monkeypatch.setattr(ledger_module, "sync_folder", synced.append)
    entry = Ledger(path).append("progress", {})
    assert synced == [entry.line + b"\n", path.parent]


def test_back_dated_lines_are_refused(path, content):
    with pytest.raises(ConfigError, match="back-dated"):
        Ledger(path).append("progress", {}, at=NOW)
    assert path.read_bytes() == content


def test_a_clock_set_back_a_little_does_not_block_and_much_does(path):
    clock = iter([NOW, NOW - timedelta(seconds=60), NOW - timedelta(seconds=61)])
    ledger = Ledger(path, lambda: next(clock))
    assert ledger.append("progress", {}).at == ledger.append("progress", {}).at
    with pytest.raises(ConfigError, match="set the clock right"):
        ledger.append("progress", {})


def test_a_guard_that_raises_keeps_the_line_out(path):
    def once(entries):
        if any(entry.kind == "opened" for entry in entries):
            raise ConfigError("opened before")

    ledger = Ledger(path)
    ledger.append("opened", {}, guard=once)
    with pytest.raises(ConfigError, match="opened before"):
        ledger.append("opened", {}, guard=once)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("body", [{"a": float("nan")}, {1: 2}, {"a": 2**60}])
def test_a_body_without_canonical_form_is_refused(path, body):
    with pytest.raises(ConfigError):
        Ledger(path).append("progress", body)
    assert Ledger(path).entries() == ()


def test_an_unknown_kind_is_refused(path):
    with pytest.raises(ConfigError, match="no kind of entry"):
        Ledger(path).append("party", {})


def test_a_missing_ledger_names_the_command_that_begins_one(path):
    for call in (verify_ledger, repair_ledger):
        with pytest.raises(ConfigError, match="specdecode plan seal"):
            call(path)


WRITERS, EACH = 4, 25


def _write_some(path, writer):
    ledger = Ledger(path)
    for number in range(EACH):
        ledger.append("progress", {"writer": writer, "number": number})


def test_a_reader_waits_for_the_end_of_a_line(path, monkeypatch):
    write, seen = os.write, []
    reader = threading.Thread(target=lambda: seen.append(verify_ledger(path)))

    def in_two_parts(descriptor, data):
        if reader.ident is None:
            done = write(descriptor, bytes(data)[:20])
            reader.start()
            reader.join(timeout=0.2)
            assert not seen
            return done
        return write(descriptor, data)

    monkeypatch.setattr(ledger_module.os, "write", in_two_parts)
    entry = Ledger(path).append("progress", {})
    reader.join()
    assert [chain.entries for chain in seen] == [(entry,)]


def _open_once(path, writer):
    def unopened(entries):
        if entries:
            raise ConfigError("taken")

    Ledger(path).append("opened", {"writer": writer}, guard=unopened)


def _run(target, arguments):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=target, args=given) for given in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [worker.exitcode for worker in workers]


def test_processes_that_write_at_once_lose_no_line(path):
    assert _run(_write_some, [(path, writer) for writer in range(WRITERS)]) == [0] * WRITERS
    chain = verify_ledger(path)
    assert chain.problem is None
    for writer in range(WRITERS):
        own = [e.body["number"] for e in chain.entries if e.body["writer"] == writer]
        assert own == list(range(EACH))


def test_of_processes_that_open_at_once_exactly_one_wins(path, capfd):
    context = [(path, writer) for writer in range(WRITERS)]
    codes = _run(_open_once, context)
    assert sorted(codes) == [0] + [1] * (WRITERS - 1)
    assert len(Ledger(path).entries()) == 1
