"""Rows as units whose numbers are final once they are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.governance.live.units import SILENCE_US, conversation_of, units_of

MINUTE = 60_000_000


def units(unit, *rows, now=None):
    """(minute, prompt) of each row, in order."""
    time = np.array([minute * MINUTE for minute, _ in rows], dtype=np.int64)
    prompts = np.array([prompt for _, prompt in rows], dtype=object)
    newest = int(time[-1]) if now is None and len(time) else (now or 0) * MINUTE
    return units_of(unit, time, prompts, now=newest)


def test_every_request_is_a_unit():
    assert units("request", (0, "a"), (0, "a"), (1, "b")).of_row.tolist() == [0, 1, 2]


def test_repeats_of_a_prompt_count_only_if_they_began_with_it():
    found = units("prompt", (0, "b"), (0, "b"), (1, "a"), (2, "b"))

    assert found.of_row.tolist() == [0, 0, 1, -1]
    assert found.time.tolist() == [0, MINUTE]


def test_a_conversation_is_read_when_it_has_been_silent_and_ordered_by_its_end():
    rows = [(0, "long/1"), (5, "short/1"), (20, "long/2"), (100, "other/1")]
    found = units("conversation", *rows)

    assert found.of_row.tolist() == [1, 0, 1, -1]  # "other" has just begun
    assert found.time.tolist() == [5 * MINUTE, 20 * MINUTE]


def test_what_comes_after_a_long_silence_is_another_conversation():
    found = units("conversation", (0, "c/1"), (31, "c/2"), (200, "d/1"))

    assert found.of_row.tolist() == [0, 1, -1]
    assert SILENCE_US == 30 * MINUTE


@pytest.mark.parametrize(
    ("prompt", "conversation"), [("c7/3", "c7"), ("a/b/1", "a/b"), ("alone", "alone"), ("/1", "/1")]
)
def test_the_conversation_is_what_stands_before_the_last_slash(prompt, conversation):
    assert conversation_of(prompt) == conversation


def test_units_without_a_value_leave_no_mean():
    found = units("prompt", (0, "a"), (0, "a"), (1, "b"), (2, "c"))
    means, places = found.means(np.array([1.0, 0.0, np.nan, 1.0]))

    assert means.tolist() == [0.5, 1.0]
    assert places.tolist() == [0, 2]


@given(
    st.sampled_from(["request", "prompt", "conversation"]),
    st.lists(
        st.tuples(st.integers(0, 300), st.sampled_from(["a/1", "a/2", "b/1", "c"])), max_size=25
    ),
    st.integers(0, 300),
)
def test_later_rows_change_no_unit_that_was_read(unit, rows, cut):
    rows = sorted(rows)
    values = np.arange(len(rows), dtype=np.float64)
    early = [each for each in rows if each[0] <= cut]
    now = early[-1][0] if early else 0
    then = units(unit, *early, now=now)
    later = units(unit, *rows)
    known, _ = then.means(values[: len(early)])
    whole, _ = later.means(values)

    assert whole[: len(known)].tolist() == known.tolist()
    assert later.time[: len(then)].tolist() == then.time.tolist()


@pytest.mark.parametrize("unit", ["prompt", "conversation"])
def test_names_that_differ_only_in_a_last_nul_are_two(unit):
    found = units(unit, (0, "a"), (1, "a\0"), (2, "a\0\0"), (3, "a"), now=100)

    assert len(found) == 3
