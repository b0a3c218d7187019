"""Rows on disk once they no longer fit a page cache, so that memory does not grow with the file.

An SQLite database without a name lives in memory until its cache is full and in a temporary file
from then on; it is gone with the connection.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any, overload

from specdecode.audit.places import Step
from specdecode.audit.row import AuditRow
from specdecode.decoding.params import SamplingParams

_SETUP = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE rows (
    seq INTEGER PRIMARY KEY, order_index INTEGER, label TEXT, identity BLOB UNIQUE, request BLOB,
    greedy INTEGER, payload TEXT
);
CREATE INDEX by_request ON rows (request) WHERE greedy;
CREATE TABLE ordered (place INTEGER PRIMARY KEY, seq INTEGER);
"""
_ARRANGE = "INSERT INTO ordered (seq) SELECT seq FROM rows ORDER BY order_index, seq"
_IN_ORDER = "SELECT payload FROM ordered JOIN rows USING (seq)"
_AT_A_TIME = 64


class RowStore(Sequence[AuditRow]):
    """A sequence of rows: add all, call `arrange` once, then read in recorded order."""

    def __init__(self) -> None:
        # A caller may read in another thread than it filled; one at a time all the same.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.executescript(_SETUP)
        self._database.execute("BEGIN")
        self._count = 0

    def add(self, row: AuditRow, identity: Hashable) -> str | None:
        """Keeps a row.

        Args:
            row: to keep.
            identity: what only a copy of the row would share; equal ones have equal `repr`.

        Returns:
            The label of the row that has this identity already; the new one is not kept then.
        """
        key = hashlib.sha256(repr(identity).encode("utf-8", "surrogatepass")).digest()
        values = (
            row.order_index,
            json.dumps(row.label),
            key,
            request_key(row),
            row.params.is_greedy,
            _packed(row),
        )
        inserted = self._database.execute(
            "INSERT OR IGNORE INTO rows (order_index, label, identity, request, greedy, payload) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )
        if inserted.rowcount:
            self._count += 1
            return None
        query = "SELECT label FROM rows WHERE identity = ?"
        return str(json.loads(self._database.execute(query, (key,)).fetchone()[0]))

    def first_without_order(self) -> str | None:
        """Label of the first row without an order index; None if all rows or none have one."""
        missing = "FROM rows WHERE order_index IS NULL"
        count = int(self._database.execute(f"SELECT COUNT(*) {missing}").fetchone()[0])
        if count in (0, self._count):
            return None
        query = f"SELECT label {missing} ORDER BY seq LIMIT 1"
        return str(json.loads(self._database.execute(query).fetchone()[0]))

    def arrange(self) -> None:
        """Fixes the order of reading: by order index, then as added."""
        self._database.execute(_ARRANGE)

    def clear(self) -> None:
        """Drops all rows."""
        self._database.execute("DELETE FROM ordered")
        self._database.execute("DELETE FROM rows")
        self._count = 0

    def same_request(self, row: AuditRow) -> AuditRow | None:
        """The first greedy row with the same prompt and parameters, seed and logprobs aside."""
        query = (
            "SELECT payload FROM ordered JOIN rows USING (seq) "
            "WHERE request = ? AND greedy ORDER BY place LIMIT 1"
        )
        found = self._database.execute(query, (request_key(row),)).fetchone()
        return None if found is None else _unpacked(found[0])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[AuditRow]:
        cursor = self._database.execute(f"{_IN_ORDER} ORDER BY place")
        while some := cursor.fetchmany(_AT_A_TIME):
            for (payload,) in some:
                yield _unpacked(payload)

    @overload
    def __getitem__(self, index: int) -> AuditRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[AuditRow]: ...
    def __getitem__(self, index: int | slice) -> AuditRow | list[AuditRow]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._count))]
        place = index + self._count if index < 0 else index
        if not 0 <= place < self._count:
            raise IndexError(f"row {index} of {self._count}")
        query = f"{_IN_ORDER} WHERE place = ?"
        return _unpacked(self._database.execute(query, (place + 1,)).fetchone()[0])


def request_key(row: AuditRow) -> bytes:
    """Digest of what was asked for: prompt and parameters, seed and logprobs aside."""
    asked = [row.prompt, row.params.model_dump_json(exclude={"seed", "logprobs"})]
    return hashlib.sha256(json.dumps(asked).encode()).digest()


def _packed(row: AuditRow) -> str:
    values = {name: value for name, value in vars(row).items() if name not in ("params", "steps")}
    values["params"] = row.params.model_dump_json(exclude_unset=True)
    values["steps"] = [asdict(step) for step in row.steps]
    return json.dumps(values)


def _unpacked(payload: str) -> AuditRow:
    values: dict[str, Any] = json.loads(payload)
    steps = [_step(step) for step in values.pop("steps")]
    return AuditRow(params=_params(values.pop("params")), steps=tuple(steps), **values)


def _step(values: dict[str, Any]) -> Step:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return Step(**fields)


@lru_cache(maxsize=256)
def _params(text: str) -> SamplingParams:
    return SamplingParams(**json.loads(text))
