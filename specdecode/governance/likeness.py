"""The arms of one request must have seen the same prompt, the same settings and the same labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from specdecode.measurement.arrays import ArrowArray, IntArray, counts
from specdecode.measurement.coding import Coder
from specdecode.measurement.grid import Column
from specdecode.measurement.keys import Keys

STRATA = ("category", "difficulty", "language")
_HASH = 16


class Likeness:
    """Compares every row with the first one seen of its request.

    What a request saw is kept as numbers: of texts their codes, of a prompt 128 bits of its hash.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        size = len(keys.prompts) * len(keys.settings)
        self._names: IntArray | None = None
        if size > 8 * len(keys.cell) + 1_000_000:  # hardly any has rows: number those that have
            self._names, self._of_row = np.unique(keys.request(), return_inverse=True)
            size = len(self._names)
        self._seen = np.zeros(size, np.bool_)
        self._differs = np.zeros(size, np.bool_)
        self._labels = {name: Column(size, ("i2", "i4"), -1) for name in ("sampling", *STRATA)}
        self._prompts: npt.NDArray[np.uint8] | None = None
        self._coders = {name: Coder() for name in self._labels}

    def at(self, batch: pa.RecordBatch, rows: slice, alike: list[str], which: IntArray) -> None:
        """Take in the next rows.

        Args:
            batch: of an extract.
            rows: their numbers.
            alike: what must be alike in different sampling parameters.
            which: those of each row, as a place in `alike`.
        """
        request = self._keys.request(rows) if self._names is None else self._of_row[rows]
        fresh = ~self._seen[request]
        differs = np.zeros(len(request), np.bool_)
        for name, label in self._labels.items():
            if name == "sampling":
                own = self._coders[name].codes(pa.array(alike, pa.string()))[which]
            else:
                own = self._coders[name].codes(batch.column(name))
            label.put(request[fresh], own[fresh])
            differs |= label.stored(request) != own
        ids = batch.column("prompt")
        if self._prompts is None and ids.null_count < len(ids):
            self._prompts = np.zeros((len(self._seen), _HASH), np.uint8)
        if self._prompts is not None:
            hashes = _hashes(ids)
            self._prompts[request[fresh]] = hashes[fresh]
            differs |= (self._prompts[request] != hashes).any(axis=1)
        self._seen[request] = True
        self._differs[request[differs]] = True

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
        return {
            name: (
                self._labels[name].stored(slice(None)).reshape(shape)[:, whole],
                self._coders[name].values,
            )
            for name in STRATA
        }


def _hashes(prompts: ArrowArray) -> npt.NDArray[np.uint8]:
    """128 bits of each prompt, [n, 16]; zeros where it is withheld."""
    if pa.types.is_null(prompts.type):
        return np.zeros((len(prompts), _HASH), np.uint8)
    found = b"".join([*prompts.dictionary.to_pylist(), bytes(_HASH)])
    table = np.frombuffer(found, np.uint8).reshape(-1, _HASH)
    hashes: npt.NDArray[np.uint8] = table[counts(prompts.indices)]
    return hashes
