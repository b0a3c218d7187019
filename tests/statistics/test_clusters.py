"""Rows into clusters: a missing key never forms one, and columns of one row stay together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.statistics.clusters import aligned, cluster_sums, partition


def test_partition_numbers_clusters_by_first_appearance():
    assert partition(4, ["b", "a", "b", "c"]).tolist() == [0, 1, 0, 2]
    with pytest.raises(ConfigError, match="row 0"):
        partition(1, [math.nan])
    with pytest.raises(ConfigError, match="2 cluster keys for 3 rows"):
        partition(3, ["a", "b"])


@given(st.lists(st.integers(-3, 3)))
def test_whole_numbers_are_numbered_as_any_other_keys(keys):
    names = [str(key) for key in keys]

    assert partition(len(keys), np.array(keys, np.int64)).tolist() == (
        partition(len(keys), names).tolist()
    )


def test_sums_are_by_cluster_and_of_none_there_are_none():
    assert cluster_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 0])).tolist() == [5.0, 2.0]
    assert cluster_sums(np.empty(0), np.empty(0, np.int64)).tolist() == []


def test_a_column_with_a_gap_is_named_with_its_row():
    with pytest.raises(ConfigError, match="seconds of row 1 is missing"):
        aligned({"tokens": [1.0, 2.0], "seconds": [1.0, None]})
    with pytest.raises(ConfigError, match="tokens has 2 values and seconds 1"):
        aligned({"tokens": [1.0, 2.0], "seconds": [1.0]})
