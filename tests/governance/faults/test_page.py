"""The page on planted faults says what is planted here, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.governance.faults.page import PAGE, SECTIONS, written

TEXT = PAGE.read_text("utf-8")


def test_its_tables_are_those_of_the_planted_faults():
    assert written(TEXT) == TEXT, "run `python -m tests.governance.faults`"


def test_a_table_cannot_be_left_out():
    with pytest.raises(ValueError, match="no place for the table of lints"):
        written(TEXT.replace("<!-- lints -->", ""))
    assert all(f"<!-- {name} -->" in TEXT for name in SECTIONS)


def test_every_test_file_it_names_is_there():
    named = {word.strip("`,.()") for word in TEXT.split() if word.startswith("`tests/")}

    assert named
    assert all(Path(name).exists() for name in named)
