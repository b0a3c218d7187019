"""Texts as numbers, so that rows can be compared and counted without holding their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from specdecode.measurement.arrays import ArrowArray, BoolArray, IntArray, coded, counts

Labels = tuple[str | None, ...]
_MOST_COMBINED = 1 << 18


class Coder:
    """Gives each different text a number, in order of appearance. For columns of few texts."""

    def __init__(self, values: Sequence[str] = ()) -> None:
        self.values: list[str] = []
        self._number: dict[str, int] = {}
        for value in values:
            self.of(value)

    def codes(self, array: ArrowArray) -> IntArray:
        """Number of each text, int64 [n]; -1 where null."""
        array = coded(array)
        places = counts(array.indices)
        used: BoolArray = np.bincount(places + 1, minlength=len(array.dictionary) + 1)[1:] > 0
        texts = array.dictionary.to_pylist()
        numbers = [self.of(t) if u else -1 for t, u in zip(texts, used.tolist(), strict=True)]
        return np.array([*numbers, -1], dtype=np.int64)[places]

    def sorted(self) -> tuple[list[str], IntArray]:
        """The texts in order, and the place in it of each number."""
        order = sorted(range(len(self.values)), key=self.values.__getitem__)
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        return [self.values[number] for number in order], places

    def of(self, text: str) -> int:
        """Number of a text."""
        number = self._number.setdefault(text, len(self.values))
        if number == len(self.values):
            self.values.append(text)
        return number


def combinations(columns: Sequence[ArrowArray]) -> tuple[IntArray, list[Labels]]:
    """Different combinations of texts in columns of few texts.

    Returns:
        Which combination each row has, [n], and the texts of each; null is None.
    """
    rows = len(columns[0])
    combined, size, read = np.zeros(rows, dtype=np.int64), 1, []
    for array in columns:
        column = coded(array)
        codes, texts = counts(column.indices) + 1, [None, *column.dictionary.to_pylist()]
        read.append((codes, texts))
        combined = combined * len(texts) + codes
        size *= len(texts)
        if size > _MOST_COMBINED:
            found, combined = np.unique(combined, return_inverse=True)
            size = len(found)
    row_of = np.full(size, -1, dtype=np.int64)
    row_of[combined] = np.arange(rows)
    used = np.flatnonzero(row_of >= 0)
    labels = zip(
        *([texts[code] for code in codes[row_of[used]].tolist()] for codes, texts in read),
        strict=True,
    )
    place = row_of
    place[used] = np.arange(len(used))
    return place[combined], list(labels)


class SortedCoder:
    """Numbers texts by their order. For a column of very many texts, such as prompts."""

    def __init__(self) -> None:
        self._chunks: list[ArrowArray] = []
        self._kind: Any = pa.dictionary(pa.int32(), pa.string())

    def add(self, array: ArrowArray) -> None:
        """Take in some texts; none may be null."""
        array = coded(array)
        codes = np.array(
            array.indices, dtype=np.int32
        )  # a copy: others' columns are not kept alive
        self._chunks.append(pa.DictionaryArray.from_arrays(codes, array.dictionary))

    def finish(self) -> tuple[ArrowArray, Iterator[npt.NDArray[np.int32]]]:
        """The different texts in order (by code point, as Python sorts).

        And, for each array taken in, in turn, the place of each of its texts.
        """
        whole: Any = pa.chunked_array(self._chunks, self._kind)
        self._chunks = []
        whole = whole.unify_dictionaries()
        if not whole.num_chunks:
            return pa.array([], pa.string()), iter(())
        texts = whole.chunk(0).dictionary
        order = pc.array_sort_indices(texts)
        places = np.empty(len(texts), dtype=np.int32)
        places[order.to_numpy()] = np.arange(len(texts), dtype=np.int32)
        return texts.take(order), (places[chunk.indices.to_numpy()] for chunk in whole.chunks)
