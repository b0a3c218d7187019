"""What a crash left of a spool, made whole again. Nothing is thrown away.

Every step can itself be cut off by a crash and is then taken again by the next start: bytes that
are no line are copied before they are cut off, and a request that has got its row has ended.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specdecode.durable import written_whole
from specdecode.measurement.records import Record
from specdecode.rollout.spool_lines import (
    ROUTER_STOPPED,
    SCHEMA,
    decoded,
    encoded,
    encoded_row,
    ended_by,
    segments,
)
from specdecode.rollout.spool_segment import close_file


@dataclass(frozen=True)
class Repaired:
    """What was found at the start.

    Attributes:
        next_number: of the segment to write to.
        stopped: requests that had begun and got a row that says so.
        shed: copies that had waited.
        torn_bytes: that were no whole line, in `torn`.
        torn: files they are kept in.
    """

    next_number: int
    stopped: int = 0
    shed: int = 0
    torn_bytes: int = 0
    torn: tuple[Path, ...] = ()


def repair(folder: Path) -> Repaired:
    """Close every segment that is open. The caller holds the lock.

    Raises:
        EvidenceError: a segment is missing or there twice.
        OSError: the folder cannot be read or written.
    """
    closed, unfinished = segments(folder)
    number = max([*closed, *unfinished], default=0)
    if not unfinished:
        return Repaired(number + 1)
    torn: list[Path] = []
    torn_bytes = 0
    begun: dict[str, dict[str, Any]] = {}
    ended: set[str] = set()
    for path in unfinished.values():
        lines, bad, aside = _mend(path)
        torn_bytes += bad
        torn += aside
        for line in lines:
            if line["kind"] in ("begin", "queued"):
                begun[str(line["asked"]["request_id"])] = line
            elif (request := ended_by(line)) is not None:
                ended.add(request)
    left = [line for request, line in begun.items() if request not in ended]
    _append(unfinished[max(unfinished)], stopped_lines(left))
    for each, path in sorted(unfinished.items(), reverse=True):
        content = path.read_bytes()
        if each == number and content.count(b"\n") < 2:
            path.unlink()  # its first line says nothing that the next segment's does not
            number -= 1
        else:
            close_file(path, each, hashlib.sha256(content).hexdigest())
    shed = sum(line["kind"] == "queued" for line in left)
    return Repaired(number + 1, len(left) - shed, shed, torn_bytes, tuple(torn))


def stopped_lines(begun: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """What ends requests whose router has ended: a row with the reason.

    A copy that had not been sent is shed, for nothing was asked of the candidate.
    """
    found = []
    for line in begun:
        asked = line["asked"]
        if line["kind"] == "queued":
            about = {name: asked.get(name) for name in ("stage", "manifest_sha256", "request_id")}
            why = {"why": ROUTER_STOPPED, "retract": [line["partner"]]}
            found.append(encoded("shed", about | why))
            continue
        try:
            found.append(encoded_row(Record(**asked, error=ROUTER_STOPPED), None))
        except (ValidationError, TypeError) as error:  # no record can be made of it: say so
            found.append(encoded("note", {"of": "unusable", "asked": asked, "why": str(error)}))
    return found


def _mend(path: Path) -> tuple[list[dict[str, Any]], int, list[Path]]:
    """Leaves only whole lines in a segment.

    Returns:
        They; how many bytes were none; the file that these are kept in, if there were some.
    """
    content = path.read_bytes()
    lines, good, bad = [], bytearray(), bytearray()
    for line in content.splitlines(keepends=True):
        try:
            lines.append(_usable(decoded(line)))
            good += line
        except (ValueError, KeyError, TypeError, RecursionError):
            bad += line
    if not lines or lines[0]["kind"] != "segment":
        head = encoded("segment", {"schema": SCHEMA, "number": int(path.stem.rpartition("-")[2])})
        lines.insert(0, decoded(head))
        good[:0] = head
    if bytes(good) == content:
        return lines, 0, []
    aside = []
    if bad:
        name = f"{path.stem}.{hashlib.sha256(bad).hexdigest()[:12]}.torn"
        aside.append(path.with_name(name))
        with written_whole(aside[0]) as file:
            file.write(bad)
    with written_whole(path) as file:
        file.write(good)
    return lines, len(bad), aside


def _usable(line: dict[str, Any]) -> dict[str, Any]:
    """The line, if it has what its kind needs."""
    if line["kind"] in ("begin", "queued"):
        str(line["asked"]["request_id"])  # raises if it is not there
    ended_by(line)
    return line


def _append(path: Path, lines: list[bytes]) -> None:
    """Adds lines durably; also syncs what was there, which a crash may have left in memory."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        data = memoryview(b"".join(lines))
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
    finally:
        os.close(handle)
