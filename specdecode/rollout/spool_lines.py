"""The lines and files of a spool: what is written, and how it is told apart.

    spool.json                 says that the folder is a spool
    spool.lock                 held by the one who writes
    open-00000002.jsonl        the segment that is written to
    rows-00000001.jsonl        a closed segment, never changed again
    rows-00000001.jsonl.sha256 its digest, as `sha256sum --check` reads it
    *.torn                     bytes that were no whole line after a crash, kept as they were

Each line is one JSON object, whose first key is "kind":

    segment    the first line: schema and number
    begin      a request was sent: the fields of its record that are known by then
    queued     a copy waits to be sent; `partner` is the row that it will be compared with
    row        the record, and `extra` that the schema has no place for
    shed, refused, cancelled, unjudged
               the request has no row, for a reason that is no arm's failure; `retract` names rows
               that do not count without it
    lost       rows that could not be written: how many of [stage, profile, manifest]
    note       anything else, named by `of`
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from specdecode.errors import EvidenceError
from specdecode.measurement.records import Record

SCHEMA: Final = "specdecode.rollout.spool/1"
MARK, LOCK = "spool.json", "spool.lock"
_NAME = re.compile(r"(open|rows)-([0-9]{8})\.jsonl")

WITHOUT_ROW: Final = frozenset({"shed", "refused", "cancelled", "unjudged"})
"""Kinds that end a request which gets no row."""

ROUTER_STOPPED: Final = "router_stopped: the router ended before the reply did"

log = logging.getLogger("specdecode.rollout")


class Item(NamedTuple):
    """What a line will be made of; of a row, `fields` are its `extra`."""

    kind: str
    fields: Mapping[str, Any]
    record: Record | None = None


class Line(NamedTuple):
    """A line with what is counted of it; `of` is a row's stage, profile and manifest."""

    kind: str
    request: str | None
    data: bytes
    failed: bool = False
    of: tuple[str, str | None, str] | None = None


def name_of(number: int, *, closed: bool) -> str:
    """File name of a segment."""
    return f"{'rows' if closed else 'open'}-{number:08d}.jsonl"


def segments(folder: Path) -> tuple[dict[int, Path], dict[int, Path]]:
    """(closed, open) segments by number, in order.

    Raises:
        EvidenceError: a number is there as both; or one is missing between others.
    """
    found: dict[str, dict[int, Path]] = {"rows": {}, "open": {}}
    for path in sorted(folder.iterdir()):
        if match := _NAME.fullmatch(path.name):
            found[match[1]][int(match[2])] = path
    closed, unfinished = found["rows"], found["open"]
    if both := sorted(set(closed) & set(unfinished)):
        raise EvidenceError(
            f"{folder}: segment {both[0]} is there closed and open; keep the one that was not "
            "copied here, and move the other away"
        )
    numbers = sorted({*closed, *unfinished})
    if missing := sorted(set(range(1, max(numbers, default=0))) - set(numbers)):
        raise EvidenceError(
            f"{folder}: segment {missing[0]} is missing ({name_of(missing[0], closed=True)}); "
            "restore it: rows must not go"
        )
    return closed, unfinished


def is_spool(folder: Path) -> bool:
    """Whether a folder holds a spool: its mark, or a segment."""
    if not folder.is_dir():
        return False
    return (folder / MARK).is_file() or any(_NAME.fullmatch(p.name) for p in folder.iterdir())


def encoded(kind: str, fields: Mapping[str, Any]) -> bytes:
    """One line.

    Raises:
        ValueError, TypeError: a value that JSON cannot write.
    """
    line = {"kind": kind, **fields}
    text = json.dumps(line, allow_nan=False, default=_plain)
    if "\\ud" in text:  # perhaps a lone half of a character, which readers in C++ refuse
        text = json.dumps(_mended(line), allow_nan=False, default=_plain)
    return text.encode("ascii") + b"\n"


def encoded_row(record: Record, extra: Mapping[str, Any] | None) -> bytes:
    """The line of a row; what is null is left out."""
    fields = record.model_dump(mode="json", exclude_none=True)
    fields["sampling"] = json.dumps(record.sampling, sort_keys=True, ensure_ascii=False)
    return encoded("row", {"record": fields, **({"extra": dict(extra)} if extra else {})})


def line_of(item: Item) -> Line | None:
    """The line of an item; None if JSON cannot write it, which is logged. A row always can be."""
    record = item.record
    try:
        if record is not None:
            return _line_of_row(record, item.fields)
        request = item.fields.get("asked", item.fields).get("request_id")
        return Line(item.kind, request, encoded(item.kind, item.fields))
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        log.exception("what belongs into a line of the spool cannot be written as JSON")
        if record is None:
            return None
        return _line_of_row(record, {"unusable": f"{type(error).__name__}: {error}"})


def _line_of_row(record: Record, extra: Mapping[str, Any]) -> Line:
    of = record.stage, record.profile, record.manifest_sha256
    data = encoded_row(record, extra)
    return Line("row", record.request_id, data, record.error is not None, of)


def decoded(line: bytes) -> dict[str, Any]:
    """A whole line.

    Raises:
        ValueError: it is none.
    """
    if not line.endswith(b"\n"):
        raise ValueError("the line has no end")
    found = json.loads(line)
    if isinstance(found, dict) and isinstance(found.get("kind"), str):
        return found
    raise ValueError("not an object with a kind")


def beginnings(*kinds: str) -> tuple[bytes, ...]:
    """How lines of these kinds begin, so that they are told without reading all of them."""
    return tuple(f'{{"kind": "{kind}"'.encode() for kind in kinds)


def ended_by(line: Mapping[str, Any]) -> str | None:
    """The request that a line ends, or None."""
    if line["kind"] == "row":
        return str(line["record"]["request_id"])
    return str(line["request_id"]) if line["kind"] in WITHOUT_ROW else None


def _mended(value: Any) -> Any:
    """The same with lone halves of characters replaced in all texts."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_mended(key): _mended(each) for key, each in value.items()}
    return [_mended(each) for each in value] if isinstance(value, list | tuple) else value


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
