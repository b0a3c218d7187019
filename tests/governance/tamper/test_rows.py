"""Rows changed, exchanged, dropped or put into another order."""

from __future__ import annotations

import json

import pytest

from specdecode.governance.verifier.verify import rows_digest
from tests.governance.bundles import edited, repacked
from tests.governance.tamper.attacks import unsigned


def rows_changed(files, change):
    """Rows changed, and their digest in audit and verdict with them: no hash is left to see it."""
    rows = [json.loads(line) for line in files["rows.jsonl"].splitlines()]
    rows = change(rows) or rows
    lines = sorted(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() for row in rows)
    digest = rows_digest(rows)
    same = lambda document: document.update(rows_sha256=digest)  # noqa: E731
    return {
        "rows.jsonl": b"".join(line + b"\n" for line in lines),
        "audit.json": edited(files["audit.json"], same),
        "verdict.json": edited(files["verdict.json"], same),
    }


def swap_arms(rows):
    other = {"plain": "block", "block": "plain"}
    for row in rows:
        row["arm"] = other.get(row["arm"], row["arm"])


def faster(rows):
    for row in rows:
        if row["arm"] == "block" and row["prompt_id"] == "p0003":
            row["e2e_s"] *= 0.9
            row["tpot_s"] = None


def exchange_prompts(rows):
    other = {"p0001": "p0002", "p0002": "p0001"}
    for row in rows:
        if row["arm"] == "block":
            row["prompt_id"] = other.get(row["prompt_id"], row["prompt_id"])


def other_inputs(rows):
    for row in rows:
        row["manifest_sha256"] = "b" * 64


def drop_arm(rows):
    return [row for row in rows if row["arm"] != "block"]


def drop_some(rows):
    return [row for row in rows if row["arm"] != "block" or row["prompt_id"] > "p0002"]


ROWS = {
    "arms exchanged": (swap_arms, {"integrity", "rules"}, "speculation is not in order: block"),
    "one arm's time shortened": (faster, {"rules"}, "block-faster: estimate"),
    "prompts of one arm exchanged": (exchange_prompts, {"integrity", "rules"}, "same_inputs"),
    "one arm dropped": (drop_arm, {"counts", "integrity", "rules"}, "arms is not in order: block"),
    "rows of other inputs": (
        other_inputs, {"inputs", "integrity"}, "rows were measured on other inputs (bbbbbbbbbbbb)"),
    "rows of one arm dropped": (
        drop_some, {"counts", "integrity", "rules"}, "missing is not in order: p0000/greedy"),
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
