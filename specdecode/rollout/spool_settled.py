"""Which rows of a spool are final while requests are still in flight.

A stage is judged look by look, in the order in which requests began, and what a look has read must
not change afterwards. But rows are written when requests end. So at any moment the last few seconds
hold the rows of quick replies only, the slow ones come later in between, and half of a pair is
there before the other. A look at that would favour whoever is quick and find gaps where there are
none.

Settled are the rows that began before the oldest request in flight, without the halves of pairs
whose copy waits, is in flight, or began after that one: copies begin later than their originals,
and a pair is judged as a whole. What comes later begins later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from specdecode.rollout.spool_lines import WITHOUT_ROW, ended_by
from specdecode.rollout.spool_snapshot import Snapshot

ABANDONED: Final = timedelta(hours=1)
"""A request is in flight no longer than this before the newest: no reply takes an hour, and a fault
that forgets one must not hold a stage up for ever."""


@dataclass(frozen=True)
class InFlight:
    """Requests that have begun and not ended.

    Args:
        oldest: start of the oldest of those that were sent; None if there is none.
        prompts: `prompt_id` of all of them, and of whatever else is not final.
    """

    oldest: datetime | None
    prompts: frozenset[str]

    def and_late(self, tables: Iterable[pa.Table]) -> Self:
        """The same with the prompts of rows that began no earlier than the oldest in flight.

        Args:
            tables: all rows, in pieces; the halves of a pair may be in different ones.
        """
        if self.oldest is None:
            return self
        late = set(self.prompts)
        for rows in tables:
            newer = rows.filter(pc.invert(self._early(rows)))
            late.update(str(each) for each in pc.unique(newer.column("prompt_id")).to_pylist())
        return replace(self, prompts=frozenset(late))

    def settled(self, rows: pa.Table) -> pa.Table:
        """The rows that are final."""
        if self.oldest is not None:
            rows = rows.filter(self._early(rows))
        if self.prompts:
            among = pa.array(sorted(self.prompts), pa.string())
            rows = rows.filter(pc.invert(pc.is_in(rows.column("prompt_id"), among)))
        return rows

    def _early(self, rows: pa.Table) -> Any:
        bound = pa.scalar(self.oldest, pa.timestamp("us", tz="UTC"))
        started: Any = rows.column("started_at")
        # Rows without a time are passed on for the gate to refuse.
        return pc.or_kleene(pc.less(started, bound), pc.is_null(started))


def in_flight(snapshot: Snapshot) -> InFlight:
    """What is in flight; only segments that are not closed hold it.

    Raises:
        EvidenceError: a segment cannot be read.
    """
    begun: dict[str, dict[str, Any]] = {}
    newest: datetime | None = None
    for line in snapshot.lines("begin", "queued", "row", *WITHOUT_ROW, unfinished=True):
        request = ended_by(line)
        if request is not None:
            begun.pop(request, None)
        else:
            begun[str(line["asked"]["request_id"])] = line
        when = _start(line.get("asked") or line.get("record") or {})
        if when is not None and (newest is None or when > newest):
            newest = when
    starts = {request: _start(line["asked"]) for request, line in begun.items()}
    held = {
        request: when
        for request, when in starts.items()
        if when is not None and newest is not None and newest - when <= ABANDONED
    }
    sent = [when for request, when in held.items() if begun[request]["kind"] == "begin"]
    prompts = frozenset(str(begun[request]["asked"].get("prompt_id")) for request in held)
    return InFlight(min(sent, default=None), prompts)


def _start(fields: dict[str, Any]) -> datetime | None:
    text = fields.get("started_at")
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
