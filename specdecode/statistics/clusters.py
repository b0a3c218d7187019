"""Rows into clusters: whole prompts are what is independent, never single rows or tokens.

Every interval and standard error of this package forms its clusters here, so that numbers shown
beside each other speak of the same units.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from specdecode.errors import ConfigError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Values = Sequence[float] | FloatArray
Clusters = Sequence[Hashable] | npt.NDArray[np.integer[Any]]


def partition(n: int, clusters: Clusters | None) -> IntArray:
    """Cluster number of each row, 0..K-1.

    Args:
        n: number of rows.
        clusters: one key per row; None makes every row its own cluster.

    Returns:
        int64 [n], numbered in order of first appearance.

    Raises:
        ConfigError: a key is missing (None or NaN), or the number of keys is not n.
    """
    if clusters is None:
        return np.arange(n, dtype=np.int64)
    if len(clusters) != n:
        raise ConfigError(f"{len(clusters)} cluster keys for {n} rows: give one key per row")
    if isinstance(clusters, np.ndarray) and np.issubdtype(clusters.dtype, np.integer):
        return _numbered(clusters)
    numbers: dict[Hashable, int] = {}
    codes = np.empty(n, dtype=np.int64)
    for row, key in enumerate(clusters):
        if key is None or (isinstance(key, float) and math.isnan(key)):
            raise ConfigError(f"row {row} has no cluster key: a missing key must not form a group")
        codes[row] = numbers.setdefault(key, len(numbers))
    return codes


def aligned(columns: Mapping[str, Values]) -> list[FloatArray]:
    """Columns of the same rows as float64 [n] each.

    Args:
        columns: by name, for messages.

    Raises:
        ConfigError: unequal lengths, or a missing or non-finite value.
    """
    (first, head), *_ = columns.items()
    arrays = []
    for name, values in columns.items():
        if len(values) != len(head):
            raise ConfigError(
                f"{first} has {len(head)} values and {name} {len(values)}: "
                "they must be paired row by row"
            )
        if isinstance(values, np.ndarray):
            array = np.asarray(values, dtype=np.float64)
        else:
            known = [np.nan if value is None else value for value in values]
            array = np.array(known, dtype=np.float64)
        if not np.isfinite(array).all():
            row = int(np.argmin(np.isfinite(array)))
            raise ConfigError(
                f"{name} of row {row} is missing or not finite: leave such pairs out and count them"
            )
        arrays.append(array)
    return arrays


def cluster_sums(values: FloatArray, codes: IntArray) -> FloatArray:
    """Sum of the rows of each cluster, float [K]."""
    sums = np.bincount(codes, weights=values, minlength=int(codes.max(initial=-1)) + 1)
    return sums.astype(np.float64)


def _numbered(keys: npt.NDArray[np.integer[Any]]) -> IntArray:
    steps = np.diff(keys)
    if (steps >= 0).all():
        return np.concatenate([[0], np.cumsum(steps > 0)]).astype(np.int64)[: len(keys)]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[inverse]
