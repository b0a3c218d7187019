"""What is on record about the opening of a confirmation set: its file OPENED and ledger lines.

OPENED                          which digests the set was opened for; made once, never changed
ledger "opened"                 the same, and the digest of that file
ledger "progress" handed_out    this prompt is about to be shown
ledger "progress" stored        its rows are safe, with their digest
ledger "progress" lost          as stored, but some rows say that they were lost to a crash
ledger "progress" complete      every prompt is stored or lost; digest of all rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from specdecode.errors import ConfigError, ConfirmationConsumed, TamperedError
from specdecode.governance.canonical import canonical_bytes, parse_canonical, sha256_hex
from specdecode.governance.chain import Entry
from specdecode.governance.strict import Sha256, Strict
from specdecode.governance.vault_page import Custody

OPENED_NAME = "OPENED"

Index = Annotated[int, Field(ge=0)]
Event = Literal["handed_out", "stored", "lost", "complete"]


class Digests(Strict):
    """What a confirmation set is opened for. A resume must come with the very same."""

    merkle_root: Sha256 = Field(description="of the confirmation set")
    seal_sha256: Sha256 = Field(description="of the seal's envelope")
    candidate_sha256: Sha256 = Field(description="of the candidate, frozen before the opening")
    subjects: dict[str, Sha256] = Field(description="everything sealed, by name")

    def differences(self, other: Digests) -> list[str]:
        """Names of what differs, sealed subjects by their own name."""
        found = [
            name.removesuffix("_sha256").replace("_", " ")
            for name in ("merkle_root", "seal_sha256", "candidate_sha256")
            if getattr(self, name) != getattr(other, name)
        ]
        names = sorted({*self.subjects, *other.subjects})
        return found + [n for n in names if self.subjects.get(n) != other.subjects.get(n)]


class Opened(Strict):
    """The content of OPENED."""

    schema_name: Literal["specdecode.opened/2"] = Field("specdecode.opened/2", alias="schema")
    digests: Digests
    custody: Custody = Field(description="whether the set's keys were held back or public")
    ledger_head: Sha256 = Field(description="head of the ledger when the set was opened")
    anchor: str = Field(description="which anchor stood for the ledger's head; 'none' for none")
    at: str = Field(description="UTC, by the clock of whoever opened")

    def to_bytes(self) -> bytes:
        """The file: canonical JSON and a newline."""
        return canonical_bytes(self.model_dump(mode="json", by_alias=True)) + b"\n"

    def ledger_body(self) -> dict[str, Any]:
        """Body of the ledger's line "opened"."""
        digests = self.digests.model_dump(mode="json")
        return {
            **digests,
            "custody": self.custody,
            "anchor": self.anchor,
            "opened_sha256": sha256_hex(self.to_bytes()),
        }


def read_opened(folder: Path) -> Opened | None:
    """The file OPENED of a vault; None when there is none.

    Raises:
        TamperedError: it cannot be read as what was once written. It is created whole, so a crash
            is no explanation.
    """
    path = folder / OPENED_NAME
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        opened = Opened.model_validate(parse_canonical(raw.removesuffix(b"\n")))
    except (ConfigError, ValidationError) as error:
        raise TamperedError(f"{path}: was changed after it was written; restore it") from error
    if opened.to_bytes() != raw:
        raise TamperedError(f"{path}: was changed after it was written; restore it")
    return opened


def refuse_other(before: Digests, now: Digests, at: str) -> None:
    """Let only the same opening go on.

    Raises:
        ConfirmationConsumed: the set was opened for anything else.
    """
    differing = before.differences(now)
    if differing:
        raise ConfirmationConsumed(
            f"these confirmation prompts were opened on {at} for candidate "
            f"{before.candidate_sha256[:12]}, and differ now: {', '.join(differing)}. A set can be "
            "opened once. Either go on with that very opening (its seal, candidate and inputs), or "
            "lock and seal new prompts for this one"
        )


class _Body(Strict):
    merkle_root: Sha256
    event: Event
    index: Index | None = None
    rows_sha256: Sha256 | None = None


@dataclass
class History:
    """What the ledger says about one confirmation set.

    Attributes:
        opened: its line "opened", or None.
        handed_out: prompts that were shown, in that order.
        settled: prompts whose rows are stored or lost, to the digest of these rows.
        lost: those of them that lack rows.
        complete: digest of all rows once every prompt is settled, else None.
    """

    opened: Entry | None = None
    handed_out: list[int] = field(default_factory=list)
    settled: dict[int, str] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    complete: str | None = None


def read_history(entries: Sequence[Entry], merkle_root: str, count: int) -> History:
    """Replay the ledger's lines about one set.

    Raises:
        TamperedError: lines that no opening writes in that order, such as a prompt shown twice.
    """
    history = History()
    for entry in entries:
        if entry.body.get("merkle_root") != merkle_root:
            continue
        if entry.kind == "opened":
            _require(history.opened is None, entry, "the set was opened twice")
            history.opened = entry
        elif entry.kind == "progress":
            _require(history.opened is not None, entry, "progress before the set was opened")
            _require(history.complete is None, entry, "progress after the end")
            _replay(history, entry, count)
    return history


def _replay(history: History, entry: Entry, count: int) -> None:
    try:
        body = _Body.model_validate(entry.body)
    except ValidationError as error:
        raise _broken(entry, "it says nothing an opening writes") from error
    index, rows = body.index, body.rows_sha256
    _require((index is None) == (body.event == "complete"), entry, "it names no one prompt")
    _require((rows is None) == (body.event == "handed_out"), entry, "its digest is out of place")
    if index is None:
        _require(len(history.settled) == count, entry, "the end came before the last prompt")
        history.complete = rows
    elif rows is None:
        _require(index == len(history.handed_out) < count, entry, "not the next prompt in order")
        history.handed_out.append(index)
    else:
        shown = index < len(history.handed_out) and index not in history.settled
        _require(shown, entry, "rows of a prompt not shown, or settled before")
        history.settled[index] = rows
        if body.event == "lost":
            history.lost.append(index)


def progress_body(
    merkle_root: str, event: Event, index: int | None = None, rows_sha256: str | None = None
) -> Mapping[str, Any]:
    """Body of a ledger line "progress"; what does not apply is left out."""
    body = _Body(merkle_root=merkle_root, event=event, index=index, rows_sha256=rows_sha256)
    return body.model_dump(mode="json", exclude_none=True)


def _require(holds: bool, entry: Entry, why: str) -> None:
    if not holds:
        raise _broken(entry, why)


def _broken(entry: Entry, why: str) -> TamperedError:
    return TamperedError(f"ledger, line {entry.sequence + 1}: {why}")
