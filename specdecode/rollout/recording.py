"""Rows of what passes by. It never fails a request: where it breaks, that is counted and told.

While rows cannot be kept the candidate gets nothing, since nobody could judge what it does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, Protocol

from specdecode.measurement.records import Record
from specdecode.rollout.ask import Ask
from specdecode.rollout.bodies import Bodies
from specdecode.rollout.leg import Leg
from specdecode.rollout.limits import Breaker
from specdecode.rollout.observation import ReplyWatch
from specdecode.rollout.spool_ticket import Patience, Ticket
from specdecode.rollout.usage import with_usage

log = logging.getLogger("specdecode.rollout")

_FAILURES: Final = 3
_PAUSE_S: Final = 60.0


class Rows(Protocol):
    """Where rows go: a `Spool`."""

    @property
    def recording(self) -> bool:
        """Whether rows are kept."""

    @property
    def failure(self) -> str | None:
        """Why not."""

    def begin(self, asked: Mapping[str, Any]) -> Ticket:
        """A request that may become a row; the ticket says when that is on record."""

    def append(self, record: Record, extra: Mapping[str, Any] | None = None) -> None:
        """A row."""

    def without_row(
        self, kind: str, request_id: str, why: str, *, retract: Sequence[str] = (), **details: Any
    ) -> None:
        """A request gets no row, and neither do those that do not count without it."""


class Recorder:
    """Keeps rows, and says whether it can.

    Args:
        rows: where they go; None if that could not even be opened.
        failure: why it could not.
        failed: told where the router's own work broke.
        keep_ids: keep the ids of tokens, where servers send them.
        ask_usage: ask for token counts in streams, which clients that did not ask do not see.
        bodies: keeps texts; None if nobody asked for that.
        patience_s: most that an answer waits for the first line of its record.

    Attributes:
        patience: waits until the beginning of a request is on record.
        unrecorded: rows that could not be made.
    """

    def __init__(
        self,
        rows: Rows | None,
        failure: str | None,
        failed: Callable[[str], None],
        *,
        keep_ids: bool = False,
        ask_usage: bool = True,
        bodies: Bodies | None = None,
        patience_s: float = 1.0,
    ) -> None:
        self._rows, self._failure, self._failed = rows, failure, failed
        self._keep_ids, self._ask_usage, self._bodies = keep_ids, ask_usage, bodies
        self._breaker = Breaker(_FAILURES, _PAUSE_S)
        self._last = ""
        self.patience = Patience(patience_s)
        self.unrecorded = 0

    @property
    def recording(self) -> bool:
        """Whether what is asked now will become a row."""
        return self._rows is not None and self._rows.recording and self._breaker.would_pass

    @property
    def why(self) -> str | None:
        """What keeps it from recording; None if nothing does."""
        if self._rows is None:
            return self._failure
        if not self._rows.recording:
            return self._rows.failure or "rows cannot be written"
        if not self._breaker.would_pass:
            return f"rows could not be made several times in a row: {self._last}"
        return None

    def leg(
        self,
        ask: Ask,
        arm: str,
        partner: str | None = None,
        sent: Callable[[], None] | None = None,
    ) -> Leg | None:
        """A row to come; None if it cannot be begun, which is counted.

        Args:
            ask: the request.
            arm: that is asked.
            partner: id of the row of the same request at the other server, if there is one.
            sent: called as the request goes out; None where nobody waits for that.
        """
        try:
            if self._rows is None:
                return None
            asked = ask.asked(arm)
            watch = ReplyWatch(
                started=monotonic(), streaming=ask.streaming, keep_ids=self._keep_ids
            )
            counted = with_usage(ask.call.body, ask.body) if self._ask_usage else None
            ticket = self._rows.begin(asked)
        except Exception as error:  # noqa: BLE001 - a user waits for an answer
            self.broke("begin", error)
            return None
        return Leg(
            self,
            self._rows,
            asked,
            watch,
            ticket=ticket,
            partner=partner,
            counted=counted,
            bodies=self._bodies,
            body=ask.call.body,
            sent=sent,
        )

    def broke(self, where: str, error: Exception) -> None:
        """The router's own work failed; the user is answered all the same."""
        self._last = f"{where}: {type(error).__name__}: {error}"
        self._breaker.failed()
        self._failed(where)
        log.error("rows: %s failed", where, exc_info=error)

    def worked(self) -> None:
        """A row was made."""
        self._breaker.succeeded()
