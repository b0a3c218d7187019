"""Bodies are kept only if somebody asked for it, without what is personal, and not for long."""

from __future__ import annotations

import errno
import itertools
import json
import os
import stat
import time

import pytest

from specdecode.errors import ConfigError
from specdecode.rollout.bodies import Bodies
from specdecode.rollout.redaction import redacted, redacted_json
from specdecode.workload.personal_data import personal_data, personal_spans

REQUEST = json.dumps(
    {
        "messages": [
            {"role": "user", "content": "Write to jane.doe@company.com or +49 30 1234567."}
        ],
        "user": "jane",
        "metadata": {"account": "7"},
        "temperature": 0,
    }
).encode()


def lines(folder):
    return [
        json.loads(t) for p in sorted(folder.glob("*.jsonl")) for t in p.read_text().splitlines()
    ]


def test_what_is_kept_has_no_personal_data_and_is_for_its_owner_only(tmp_path):
    folder = tmp_path / "bodies"
    with Bodies(folder, 1.0) as bodies:
        bodies.keep("c/1/greedy/plain", REQUEST, "Her card is 4111 1111 1111 1111.")

    [line] = lines(folder)
    assert line["request_id"] == "c/1/greedy/plain"
    assert line["request"] == {
        "messages": [{"role": "user", "content": "Write to [email] or [phone]."}],
        "temperature": 0,
    }
    assert line["reply"] == "Her card is [card]."
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(p.stat().st_mode) for p in folder.glob("*.jsonl")] == [0o600]
    assert bodies.counts.kept == 1


@pytest.mark.parametrize("body", [b"not JSON: jane.doe@company.com", b"[1, 2]", b"\xff\xfe", b""])
def test_a_body_that_is_no_request_is_kept_as_text(tmp_path, body):
    with Bodies(tmp_path, 1.0) as bodies:
        bodies.keep("a", body, "half a character \ud83d")

    [line] = lines(tmp_path)
    assert isinstance(line["request"], str)
    assert "company" not in line["request"]


def test_a_share_is_drawn_by_prompt_alike_for_both_arms(tmp_path):
    with Bodies(tmp_path / "a", 0.3) as some, Bodies(tmp_path / "b", 0.3) as same:
        drawn = [some.wants(f"c/{n}") for n in range(2000)]
        assert drawn == [same.wants(f"c/{n}") for n in range(2000)]
    assert 500 < sum(drawn) < 700
    with Bodies(tmp_path / "c", 0.0) as none, Bodies(tmp_path / "d", 1.0) as every:
        assert not any(none.wants(f"c/{n}") for n in range(100))
        assert all(every.wants(f"c/{n}") for n in range(100))


def test_the_oldest_go_when_there_are_too_many_bytes(tmp_path):
    with Bodies(tmp_path, 1.0, most_bytes=32_000) as bodies:
        for number in range(300):
            bodies.keep(str(number), b"{}", "x" * 400)
            while bodies.counts.kept + bodies.counts.failed <= number:
                time.sleep(0)  # the queue is short on purpose; this one is to be whole

    kept = [int(line["request_id"]) for line in lines(tmp_path)]
    assert sum(p.stat().st_size for p in tmp_path.glob("*.jsonl")) <= 32_000
    assert kept == list(range(kept[0], 300))
    assert 20 < len(kept) < 80
    assert bodies.counts.removed > 0
    assert bodies.counts.failed == 0


def test_files_go_when_they_are_too_old(tmp_path):
    with Bodies(tmp_path, 1.0) as bodies:
        bodies.keep("old", b"{}", "")
    [old] = tmp_path.glob("*.jsonl")
    (tmp_path / "notes.txt").write_text("mine")
    long_ago = time.time() - 8 * 86_400
    os.utime(old, (long_ago, long_ago))
    os.utime(tmp_path / "notes.txt", (long_ago, long_ago))

    with Bodies(tmp_path, 1.0, days=7) as bodies:
        bodies.keep("new", b"{}", "")

    assert [line["request_id"] for line in lines(tmp_path)] == ["new"]
    assert (tmp_path / "notes.txt").exists()
    assert bodies.counts.removed == 1


def test_what_is_too_large_is_left_out_and_counted(tmp_path):
    with Bodies(tmp_path, 1.0, most_body=100) as bodies:
        bodies.keep("a", b"x" * 101, "")
        bodies.keep("b", b"", "x" * 101)

    assert bodies.counts.left_out == 2
    assert lines(tmp_path) == []


def test_a_disk_that_fails_is_counted_and_no_half_a_line_stays(tmp_path, monkeypatch):
    real = os.pwrite

    def full(handle, data, place):
        if place:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data[:5], place)

    with Bodies(tmp_path, 1.0) as bodies:
        monkeypatch.setattr(os, "pwrite", full)
        bodies.keep("a", b"{}", "")
        while not bodies.counts.failed:
            time.sleep(0)
        monkeypatch.undo()
        bodies.keep("b", b"{}", "")

    assert [line["request_id"] for line in lines(tmp_path)] == ["b"]
    assert (bodies.counts.kept, bodies.counts.failed) == (1, 1)


@pytest.mark.parametrize(
    ("share", "options"),
    [(-0.1, {}), (1.5, {}), (float("nan"), {}), (0.5, {"days": 0}), (0.5, {"most_bytes": 0})],
    ids=["negative", "above one", "nan", "no days", "no bytes"],
)
def test_numbers_out_of_range_are_refused(tmp_path, share, options):
    with pytest.raises(ConfigError):
        Bodies(tmp_path, share, **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing here, 12 + 30 = 42", "nothing here, 12 + 30 = 42"),
        ("a@b.de, c@d.fr", "[email], [email]"),
        ("write to me@example.com", "write to me@example.com"),  # nobody's
        ("IBAN DE89 3704 0044 0532 0130 00.", "IBAN [iban]."),
        ("from 8.8.8.8 to 10.0.0.1", "from [ipv4] to 10.0.0.1"),
        ("", ""),
    ],
    ids=["none", "two", "reserved", "iban", "address", "empty"],
)
def test_each_find_is_replaced_by_its_kind(text, expected):
    assert redacted(text) == expected
    assert personal_data(redacted(text)) == []


def test_finds_that_overlap_leave_nothing_over():
    text = "to 4111111111111111@company.com, or 1"
    spans = personal_spans(text)

    assert all(a[2] <= b[1] for a, b in itertools.pairwise(spans))
    assert personal_data(text) == ["email", "card"]
    assert redacted(text) == "to [card], or 1"


def test_every_text_of_a_json_value_is_looked_at():
    found = redacted_json({"a@b.de": ["c@d.fr", 5, None, {"x": "e@f.it"}]})

    assert found == {"[email]": ["[email]", 5, None, {"x": "[email]"}]}
