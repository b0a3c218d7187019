"""What makes a file of lines a chain, and what can be wrong with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.canonical import canonical_bytes, parse_canonical, sha256_hex
from specdecode.governance.strict import Sha256, Strict
from specdecode.governance.timestamps import UtcText, parse_utc

EMPTY_HEAD = "0" * 64
"""The head of a ledger without lines."""

Kind = Literal["seal", "amendment", "opened", "progress", "verdict", "approval", "override"]


class Fault(StrEnum):
    """What happened to a ledger."""

    EDITED = "edited"
    REORDERED = "reordered"
    REMOVED = "removed"
    BACK_DATED = "back-dated"
    TRUNCATED = "truncated"
    PARTIAL = "partial"


@dataclass(frozen=True)
class Problem:
    """The first fault: the line (from 1), what happened, and the finding in words."""

    line: int
    fault: Fault
    message: str


class Entry(Strict):
    """One line."""

    sequence: Annotated[int, Field(ge=0)] = Field(description="0 for the first line")
    previous: Sha256 = Field(description="SHA-256 of the line before; zeros for the first")
    kind: Kind = Field(description="what happened")
    at: UtcText = Field(description="when, by the clock of whoever wrote it")
    body: dict[str, Any] = Field(description="details")

    @classmethod
    def following(cls, chain: Chain, kind: Kind, at: str, body: Mapping[str, Any]) -> Entry:
        """The entry to be written after an intact chain.

        Raises:
            ConfigError: an unknown kind, or a body without canonical form.
        """
        if kind not in get_args(Kind):
            raise ConfigError(f"no kind of entry is {kind!r}; there are {get_args(Kind)}")
        document = {
            "sequence": len(chain.entries),
            "previous": chain.head,
            "kind": kind,
            "at": at,
            "body": parse_canonical(canonical_bytes(body)),  # a copy, as a reader would see it
        }
        return cls.model_validate(document)

    @cached_property
    def line(self) -> bytes:
        """The line's bytes, without the newline."""
        return canonical_bytes(self.model_dump(mode="json"))

    @cached_property
    def sha256(self) -> str:
        """The head of the ledger that ends with this line."""
        return sha256_hex(self.line)

    @cached_property
    def time(self) -> datetime:
        """`at` as a time."""
        return parse_utc(self.at)

    def mentions(self, digest: str) -> bool:
        """Whether the body holds the digest as a value, however deep."""
        return _holds(self.body, digest)


@dataclass(frozen=True)
class Chain:
    """A ledger as it was found: the entries before the first fault, the head, and the fault."""

    entries: tuple[Entry, ...]
    head: str
    problem: Problem | None

    def intact(self, where: str = "ledger") -> Chain:
        """This chain.

        Raises:
            TamperedError: it has a fault.
        """
        if self.problem is not None:
            raise TamperedError(f"{where}, line {self.problem.line}: {self.problem.message}")
        return self


def verify_chain(
    data: bytes, expected_head: str | None = None, *, known: Chain | None = None
) -> Chain:
    """The chain in a ledger's bytes; see `ledger.verify_ledger`.

    Args:
        data: all bytes of the ledger.
        expected_head: head of some line, from elsewhere.
        known: an intact chain that `data` was found to begin with.
    """
    lines = data.split(b"\n")
    rest = lines.pop()
    entries = list(known.entries) if known else []
    for number in range(len(entries), len(lines)):
        problem = _problem(lines, number, entries, expected_head)
        if isinstance(problem, Problem):
            return Chain(tuple(entries), _head(entries), problem)
        entries.append(problem)
    chain = Chain(tuple(entries), _head(entries), None)
    if rest:
        message = (
            "the last line has no end: a crash cut it short, or someone did; it was never reported "
            "as written, and `specdecode ledger repair` takes it off and keeps its bytes"
        )
        return Chain(chain.entries, chain.head, Problem(len(lines) + 1, Fault.PARTIAL, message))
    heads = [EMPTY_HEAD, *(entry.sha256 for entry in entries)]
    if expected_head is not None and expected_head not in heads:
        message = (
            f"no line has the anchored head {expected_head}: lines from here on were cut off, or "
            "this one was edited"
        )
        problem = Problem(max(len(entries), 1), Fault.TRUNCATED, message)
        return Chain(chain.entries, chain.head, problem)
    return chain


def _head(entries: Sequence[Entry]) -> str:
    return entries[-1].sha256 if entries else EMPTY_HEAD


def _problem(
    lines: Sequence[bytes], number: int, before: Sequence[Entry], expected_head: str | None
) -> Entry | Problem:
    """The entry on line `number` (from 0), or what is wrong with it."""
    entry = _parse(lines[number])
    if isinstance(entry, str):
        return Problem(number + 1, Fault.EDITED, f"edited: {entry}")
    if entry.sequence != number:
        return _misplaced(lines, number, entry)
    if entry.previous != _head(before):
        return _broken_link(lines, number, expected_head)
    if before and entry.time < before[-1].time:
        message = f"back-dated: {entry.at} is before the line above it, {before[-1].at}"
        return Problem(number + 1, Fault.BACK_DATED, message)
    return entry


def _misplaced(lines: Sequence[bytes], number: int, entry: Entry) -> Problem:
    parsed = [_parse(line) for line in lines]
    others = [found.sequence if isinstance(found, Entry) else None for found in parsed]
    if number in others:
        message = f"reordered: entry {entry.sequence} stands where entry {number} belongs"
        return Problem(number + 1, Fault.REORDERED, message)
    if others[number + 1 : number + 2] == [number + 1]:
        message = f"edited: this is entry {number} and says it is entry {entry.sequence}"
        return Problem(number + 1, Fault.EDITED, message)
    message = f"removed: entry {number} is missing, entry {entry.sequence} stands in its place"
    return Problem(number + 1, Fault.REMOVED, message)


def _broken_link(lines: Sequence[bytes], number: int, expected_head: str | None) -> Problem:
    """Line `number` does not name the line above it. Which of the two was changed?"""
    own = sha256_hex(lines[number])
    below = _parse(lines[number + 1]) if number + 1 < len(lines) else None
    if number == 0:
        return Problem(1, Fault.EDITED, "edited: the first line names a line before it")
    if (isinstance(below, Entry) and below.previous == own) or own == expected_head:
        message = "edited: the line below holds the hash of what stood here"
        return Problem(number, Fault.EDITED, message)
    if isinstance(below, Entry):
        message = "edited: it fits neither the line above nor the line below"
        return Problem(number + 1, Fault.EDITED, message)
    return Problem(number + 1, Fault.EDITED, "edited: this line, or the one above it")


def _holds(value: Any, digest: str) -> bool:
    if isinstance(value, dict):
        return any(_holds(item, digest) for item in value.values())
    if isinstance(value, list):
        return any(_holds(item, digest) for item in value)
    return bool(value == digest)


def _parse(line: bytes) -> Entry | str:
    try:
        return Entry.model_validate(parse_canonical(line))
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    except ConfigError as error:
        return str(error)
