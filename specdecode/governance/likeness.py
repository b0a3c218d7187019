"""The arms of one request must have seen the same prompt, the same settings and the same labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from specdecode.measurement.arrays import ArrowArray, BoolArray, IntArray, counts
from specdecode.measurement.coding import Coder, Labels, combinations
from specdecode.measurement.grid import Column
from specdecode.measurement.keys import Keys, Rows
from specdecode.measurement.records import STRATA

_ALIKE = ("sampling", *STRATA)
_HASH = 16


class Likeness:
    """Compares every row with the first one seen of its request.

    What a request saw is kept as numbers: of labels that of their combination, of a prompt 128 bits
    of its hash. Of a failed request whose prompt is not recorded nobody knows what it was: a router
    learns token ids from the reply. It is compared by its labels only.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        size = len(keys.prompts) * len(keys.settings)
        self._names: IntArray | None = None
        if size > 8 * len(keys.cell) + 1_000_000:  # hardly any has rows: number those that have
            self._names, self._of_row = np.unique(keys.request(), return_inverse=True)
            size = len(self._names)
        self._differs = np.zeros(size, np.bool_)
        self._labels = Column(size, ("i2", "i4"), -1)
        self._numbers: dict[Labels, int] = {}
        self._prompts: npt.NDArray[np.uint8] | None = None
        self._told = np.zeros(size, np.bool_)

    def at(self, batch: pa.RecordBatch, rows: slice, request: Rows, failed: BoolArray) -> None:
        """Take in some rows.

        Args:
            batch: of an extract.
            rows: their numbers.
            request: of each of them, as `keys` numbers it.
            failed: whether each of them failed.
        """
        place = request if self._names is None else self._of_row[rows]
        which, found = combinations([batch.column(name) for name in _ALIKE])
        numbers = [self._numbers.setdefault(labels, len(self._numbers)) for labels in found]
        own = np.array(numbers, dtype=np.int32)[which]
        fresh = self._labels.stored(place) < 0
        self._labels.put(place[fresh], own[fresh])
        differs = self._labels.stored(place) != own
        prompts = batch.column("prompt")
        if self._prompts is None and not pa.types.is_null(prompts.type):
            self._prompts = np.zeros((len(self._differs), _HASH), np.uint8)
        hashes = _hashes(prompts)
        tells = ~failed | hashes.any(axis=1)
        first = tells & ~self._told[place]
        self._told[place[first]] = True
        if self._prompts is not None:
            self._prompts[place[first]] = hashes[first]
            differs |= tells & (self._prompts[place] != hashes).any(axis=1)
        self._differs[place[differs]] = True

    def unlike(self) -> IntArray:
        """Requests that differ between rows, as numbers of `keys`."""
        found = np.flatnonzero(self._differs)
        return found if self._names is None else self._names[found].astype(np.int64)

    def strata(
        self, places: IntArray, settings: int
    ) -> dict[str, tuple[npt.NDArray[np.integer[Any]], list[str]]]:
        """By stratum, the value of each request [P, S] as a number, and the values.

        Args:
            places: place of each of the rows' settings among those wanted, -1 for others.
            settings: how many are wanted.
        """
        if self._names is not None:
            return {}
        chosen = [int(np.flatnonzero(places == place)[0]) for place in range(settings)]
        shape = len(self._keys.prompts), len(places)
        whole = slice(None) if chosen == list(range(len(places))) else chosen
        labels = self._labels.stored(slice(None)).reshape(shape)[:, whole]
        found = {}
        for place, name in enumerate(_ALIKE[1:], start=1):
            coder = Coder()
            texts = [of[place] for of in self._numbers]
            numbers = [-1 if text is None else coder.of(text) for text in texts]
            kind = np.int16 if len(coder.values) < 2**15 else np.int32
            found[name] = np.array([*numbers, -1], kind)[labels], coder.values
        return found


def _hashes(prompts: ArrowArray) -> npt.NDArray[np.uint8]:
    """128 bits of each prompt, [n, 16]; zeros where it is withheld."""
    if pa.types.is_null(prompts.type):
        return np.zeros((len(prompts), _HASH), np.uint8)
    found = b"".join([*prompts.dictionary.to_pylist(), bytes(_HASH)])
    table = np.frombuffer(found, np.uint8).reshape(-1, _HASH)
    hashes: npt.NDArray[np.uint8] = table[counts(prompts.indices)]
    return hashes
