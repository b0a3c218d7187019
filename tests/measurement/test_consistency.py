"""Sums over histograms, which are taken of whole columns, are those of each list."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from specdecode.measurement.consistency import _sums

COUNT = st.none() | st.integers(0, 9) | st.sampled_from([2**40, 2**62, 2**63 - 1])
HISTOGRAMS = st.lists(st.none() | st.lists(COUNT, max_size=5), max_size=9)


@given(HISTOGRAMS, st.integers(0, 4), st.integers(0, 4))
def test_sums_of_a_column_are_the_sums_of_its_lists(lists, first, last):
    array = pa.array(lists, pa.list_(pa.int64()))
    array = array[first : max(first, len(array) - last)]

    total, weighted = _sums(array)

    known = [[count or 0 for count in counts or []] for counts in array.to_pylist()]
    assert total.tolist() == [sum(counts) for counts in known]
    assert weighted.tolist() == [sum(i * n for i, n in enumerate(counts)) for counts in known]


def test_what_stands_under_a_null_does_not_count():
    array = pa.ListArray.from_arrays(
        pa.array([0, 2, 3, 4], pa.int32()),
        pa.array([1, 2, 50, 4], pa.int64()),
        mask=pa.array([False, True, False]),
    )

    total, weighted = _sums(array)

    assert (total[0], total[2]) == (3, 4)
    assert (weighted[0], weighted[2]) == (2, 0)
