"""A ledger edited, cut short, put into another order, dated back or written anew."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from tests.governance.bundles import (
    BUNDLED,
    DECIDED,
    SEALED,
    chained,
    edited,
    repacked,
    seal_line,
    seal_of,
    utc,
)
from tests.governance.keys import GRACE
from tests.governance.tamper.attacks import APPROVED, PLAN, SEAL, lines_of, unsigned, with_head


def test_the_time_on_record_cannot_be_set_back_before_the_ledger(bundle, checked):
    change = lambda r: r.update(at=utc(SEALED))  # noqa: E731
    attacked = unsigned(bundle, **{"record.json": edited(bundle["record.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert code == 3
    assert "ledger" in wrong
    assert "older than its ledger" in text


LEDGERS = {
    "a line edited": (
        lambda lines: [lines[0].replace(b"2025-12-30", b"2025-12-01"), *lines[1:]], "line 2"),
    "a line removed": (lambda lines: [lines[0], *lines[2:]], "entry 2 stands here"),
    "lines exchanged": (lambda lines: [lines[0], lines[2], lines[1], lines[3]],
                        "entry 2 stands here"),
    "the first line removed": (lambda lines: lines[1:], "entry 1 stands here"),
    "the end cut off": (lambda lines: lines[:-1], "the ledger has 0 decisions on this verdict"),
    "the last line without its end": (lambda lines: [*lines[:-1], lines[-1][:-1]], "has no end"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEDGERS)
def test_a_changed_ledger_is_seen(bundle, checked, name):
    change, cause = LEDGERS[name]
    ledger = b"".join(change(lines_of(bundle["ledger.jsonl"])))

    code, wrong, text = checked(repacked(with_head(bundle, ledger)))

    assert code == 3
    assert wrong <= {"ledger", "approvals"}
    assert cause in text


def test_a_ledger_cut_short_does_not_end_where_the_bundle_says(bundle, checked):
    ledger = b"".join(lines_of(bundle["ledger.jsonl"])[:-1])

    code, wrong, text = checked(repacked(unsigned(bundle, **{"ledger.jsonl": ledger})))

    assert (code, wrong) == (3, {"ledger", "approvals"})
    assert "truncated?" in text


REWRITTEN = {
    "a seal dated after what followed it": (
        [seal_line(SEAL, PLAN, at=BUNDLED), APPROVED], 3, "back-dated"),
    "a seal of another plan": ([seal_line(SEAL, "0" * 64), APPROVED], 3, "another seal, or none"),
    "another seal": ([seal_line(seal_of(PLAN, GRACE), PLAN), APPROVED], 3, "another seal, or none"),
    "sealed anew": (
        [seal_line(SEAL, PLAN), seal_line(seal_of(PLAN, GRACE), PLAN), APPROVED], 3,
        "another seal, or none"),
    "no seal": ([APPROVED], 3, "another seal, or none"),
    "another verdict": (
        [seal_line(SEAL, PLAN),
         ("verdict", DECIDED, {"plan_sha256": PLAN, "verdict_sha256": "0" * 64}), APPROVED],
        3, "records another verdict"),
    "a seal of a later day than it was signed": (
        [seal_line(SEAL, PLAN, at=DECIDED), APPROVED], 3, "it was signed on 2025-12-30"),
    "a seal of an earlier day than it was signed": (
        [seal_line(SEAL, PLAN, at=SEALED.replace(year=2020)), APPROVED], 3,
        "it was signed on 2025-12-30"),
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_ledger_written_anew_still_has_to_tell_this_story(bundle, checked, name):
    entries, expected, cause = REWRITTEN[name]

    code, wrong, text = checked(repacked(with_head(bundle, chained(*entries))))

    assert code == expected
    assert wrong <= {"ledger", "approvals"}
    assert cause in text


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_a_ledger_cut_short_anywhere_is_seen(bundle, checked, kept):
    """The record of its head made to fit; what else is recorded of its end is the approval."""
    ledger = b"".join(lines_of(bundle["ledger.jsonl"])[:kept])
    files = with_head(bundle, ledger) if kept else unsigned(bundle, **{"ledger.jsonl": b""})

    code, wrong, text = checked(repacked(files))

    assert code in (3, 12)
    assert wrong <= {"ledger", "approvals", "anchors"}
    assert "approvals" in wrong
    assert ("the ledger has 0 decisions" if kept else "ledger.jsonl has no lines") in text


@pytest.mark.parametrize("cut", [1, 2, 50, 300])
def test_a_ledger_cut_in_the_middle_of_a_line_is_seen(bundle, checked, cut):
    code, wrong, text = checked(
        repacked(unsigned(bundle, **{"ledger.jsonl": bundle["ledger.jsonl"][:-cut]}))
    )

    assert code == 3
    assert "ledger" in wrong
    assert "ledger.jsonl: the last line has no end" in text


@pytest.mark.parametrize("place", [1, 2, 3])
def test_no_line_can_be_dated_back_before_the_one_above(bundle, checked, place):
    """All hashes made to fit: its date alone is left to tell."""
    lines = [json.loads(line) for line in lines_of(bundle["ledger.jsonl"])]
    dated = [[line["kind"], datetime.fromisoformat(line["at"]), line["body"]] for line in lines]
    dated[place][1] = dated[place - 1][1] - timedelta(seconds=1)

    code, wrong, text = checked(repacked(with_head(bundle, chained(*dated))))

    assert (code, wrong) == (3, {"ledger", "approvals"})
    assert f"ledger.jsonl, line {place + 1}: back-dated" in text
