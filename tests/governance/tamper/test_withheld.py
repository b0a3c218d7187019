"""Rows whose texts are withheld: their hashes, and the rows that are shown."""

from __future__ import annotations

import json

from tests.governance.bundles import edited, repacked
from tests.governance.tamper.attacks import flipped


def test_a_changed_hash_breaks_the_root(withheld, checked):
    leaves = flipped(withheld["rows.leaves"], 0)

    code, wrong, text = checked(repacked(withheld | {"rows.leaves": leaves}))

    assert (code, wrong) == (3, {"rows"})
    assert "do not give their root" in text


def test_a_shown_row_with_another_text_is_seen(withheld, checked):
    change = lambda shown: shown[0].update(line=shown[0]["line"].replace("five", "nine"))  # noqa: E731
    attacked = withheld | {"rows.shown.json": edited(withheld["rows.shown.json"], change)}

    code, wrong, text = checked(repacked(attacked))

    assert (code, wrong) == (3, {"rows"})
    assert "another text than its hash is of" in text


def test_a_number_that_differs_from_a_shown_row_is_seen(withheld, checked):
    index = json.loads(withheld["rows.shown.json"])[0]["index"]
    lines = withheld["rows.jsonl"].splitlines(keepends=True)
    row = json.loads(lines[index]) | {"peak_rss_bytes": 1}
    lines[index] = json.dumps(row, sort_keys=True).encode() + b"\n"

    code, wrong, text = checked(repacked(withheld | {"rows.jsonl": b"".join(lines)}))

    assert (code, wrong) == (3, {"rows"})
    assert "differs from its full text" in text


def test_a_dropped_hash_is_seen(withheld, checked):
    leaves = withheld["rows.leaves"].split(b"\n", 1)[1]

    assert (
        "143 hashes stand for 144 rows" in checked(repacked(withheld | {"rows.leaves": leaves}))[2]
    )


def test_exchanged_hashes_break_the_root(withheld, checked):
    first, second, rest = withheld["rows.leaves"].split(b"\n", 2)
    leaves = b"\n".join([second, first, rest])

    code, wrong, text = checked(repacked(withheld | {"rows.leaves": leaves}))

    assert (code, wrong) == (3, {"rows"})
    assert "do not give their root" in text
