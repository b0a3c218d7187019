"""Bundles whose texts are withheld."""

from __future__ import annotations

import json

from specdecode.governance.verifier import text_of, verify
from specdecode.governance.withheld import FIELDS, Withheld
from tests.governance.bundle.looks import SECRET, files_of
from tests.governance.bundles import good


def test_withheld_texts_are_nowhere_in_the_bundle(tmp_path):
    path = good().write(tmp_path, withheld=Withheld(SECRET))
    files = files_of(path)
    rows = [json.loads(line) for line in files["rows.jsonl"].splitlines()]

    assert b"five tokens" not in path.read_bytes()
    assert not {name for row in rows for name in row} & set(FIELDS)
    assert verify(path)["status"] == "GO"
    assert "cannot be recomputed" in text_of(verify(path))


def test_a_withheld_row_can_be_shown_and_must_fit_its_hash(tmp_path):
    name = good().rows[7].request_id
    path = good().write(tmp_path, withheld=Withheld(SECRET, shown=[name]))
    files = files_of(path)
    shown = json.loads(files["rows.shown.json"])

    assert json.loads(shown[0]["line"])["request_id"] == name
    assert verify(path)["status"] == "GO"


def test_leaves_do_not_give_away_which_rows_are_equal(tmp_path):
    leaves = files_of(good().write(tmp_path, withheld=Withheld(SECRET)))["rows.leaves"].split()
    others = files_of(good().write(tmp_path, withheld=Withheld(SECRET[::-1])))["rows.leaves"]

    assert len(set(leaves)) == len(leaves)
    assert not set(leaves) & set(others.split())
