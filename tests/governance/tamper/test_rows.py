"""Rows changed, exchanged, dropped or put into another order."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.governance.bundles import SEALED, case, repacked
from tests.governance.tamper.attacks import (
    drop_arm,
    drop_some,
    exchange_prompts,
    faster,
    measured_backwards,
    measured_before_the_seal,
    other_inputs,
    rows_changed,
    swap_arms,
    swap_drafting_arms,
    unsigned,
)

ROWS = {
    "arms exchanged": (swap_arms, {"integrity", "rules"}, "speculation is not in order: block"),
    "one arm's time shortened": (faster, {"rules"}, "block-faster: estimate"),
    "prompts of one arm exchanged": (exchange_prompts, {"integrity", "rules"}, "same_inputs"),
    "one arm dropped": (drop_arm, {"counts", "integrity", "rules"}, "arms is not in order: block"),
    "rows of other inputs": (
        other_inputs, {"inputs", "integrity"}, "rows were measured on other inputs (bbbbbbbbbbbb)"),
    "rows of one arm dropped": (
        drop_some, {"counts", "integrity", "rules"}, "missing is not in order: p0000/greedy"),
    "drafting arms exchanged": (swap_drafting_arms, {"rules"}, "block-faster: estimate"),
    "measured in another order": (
        measured_backwards, set(), "the ledger records another verdict on this plan"),
    "measured before the seal": (
        measured_before_the_seal, set(), "the ledger records another verdict on this plan"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_changed_rows_no_longer_give_the_verdict(bundle, checked, name):
    change, seen_by, cause = ROWS[name]

    code, wrong, text = checked(repacked(unsigned(bundle, **rows_changed(bundle, change))))

    assert code == 3
    assert seen_by | {"ledger", "approvals"} == wrong
    assert cause in text


@pytest.mark.parametrize("name", ROWS)
def test_changed_rows_are_not_those_audited(bundle, checked, name):
    rows = rows_changed(bundle, ROWS[name][0])["rows.jsonl"]

    code, wrong, text = checked(repacked(unsigned(bundle, **{"rows.jsonl": rows})))

    assert code == 3
    assert "rows" in wrong
    assert "the verdict is of rows" in text


def test_reordered_rows_are_seen(bundle, checked):
    lines = bundle["rows.jsonl"].splitlines(keepends=True)
    attacked = unsigned(bundle, **{"rows.jsonl": b"".join(lines[::-1])})

    code, wrong, text = checked(repacked(attacked))

    assert (code, wrong) == (3, {"rows"})
    assert "rows.jsonl is not in order" in text


def test_rows_spelled_otherwise_are_seen(bundle, checked):
    """The digest is of what rows say, so their spelling needs a check of its own."""
    rows = bundle["rows.jsonl"].replace(b'": ', b'":  ', 1)

    code, wrong, text = checked(repacked(unsigned(bundle, **{"rows.jsonl": rows})))

    assert (code, wrong) == (3, {"rows"})
    assert "rows.jsonl is spelled otherwise" in text


@pytest.mark.parametrize("arm", ["plain", "token", "block"])
@pytest.mark.parametrize("kept", [0, 1])
def test_rows_of_any_arm_cannot_be_dropped(bundle, checked, arm, kept):
    """All of its rows, or all but one."""

    def drop(rows):
        own = [row for row in rows if row["arm"] == arm]
        return [row for row in rows if row["arm"] != arm] + own[:kept]

    code, wrong, text = checked(repacked(unsigned(bundle, **rows_changed(bundle, drop))))

    assert code == 3
    assert {"counts", "integrity", "rules"} <= wrong
    assert (f"arms is not in order: {arm}" if not kept else "missing is not in order") in text


def test_rows_dated_before_the_seal_are_seen_though_all_hashes_fit(tmp_path, checked):
    """Made afresh by someone with all keys: what is left is the seal's own date."""

    def early(records):
        return [r.model_copy(update={"started_at": SEALED - timedelta(seconds=1)}) for r in records]

    code, wrong, text = checked(case(change=early).write(tmp_path).read_bytes())

    assert (code, wrong) == (12, {"ledger"})
    assert "after the first row" in text
