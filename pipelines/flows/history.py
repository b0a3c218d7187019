"""What a journal says of a release: what is unfinished, what was taken back, what was promoted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.flows.journal import Line

RETREATS = ("RollBack", "Stop")


@dataclass(frozen=True)
class History:
    """A release so far.

    Attributes:
        pending: a decision without an end, which a killed run left; None: there is none.
        untold: an action that was done, of which nobody was told yet; None: there is none.
        closed: why the release was taken back; None: it was not.
        begun: whether it has ever been taken a step up.
        promoting: verdict of a promotion that was begun, not ended and not given up.
        promoted: whether a promotion came to its end after the last retreat.
        asked: verdicts whose signatures were asked for.
        held: the last hold that came to stay.
    """

    pending: Line | None
    untold: Line | None
    closed: str | None
    begun: bool
    promoting: str | None
    promoted: bool
    asked: frozenset[str]
    held: str | None


def history_of(lines: Sequence[Line]) -> History:
    """Reads the lines of one journal."""
    pending = untold = None
    closed = promoting = held = None
    promoted = begun = False
    asked: set[str] = set()
    for line in lines:
        kind = line.details.get("action")
        if line.event == "decided":
            pending = line
            promoting = line.details.get("verdict_sha256") if kind == "Promote" else promoting
        elif line.event in ("done", "given_up"):
            pending = None
            promoting = None if kind == "Promote" else promoting
            if line.event == "done":
                untold = line
                promoted = promoted or kind == "Promote"
                begun = begun or kind == "SetState"
            if line.event == "done" and kind in RETREATS:
                closed, promoted, promoting = str(line.details["reason"]), False, None
        elif line.event == "told":
            untold = None
        elif line.event == "asked":
            asked.add(str(line.details["verdict_sha256"]))
        elif line.event == "held":
            held = str(line.details["reason"])
    return History(pending, untold, closed, begun, promoting, promoted, frozenset(asked), held)
