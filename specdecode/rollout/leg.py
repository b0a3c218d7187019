"""One request to one arm: what passes is read, and in the end becomes a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from specdecode.rollout.bodies import Bodies
from specdecode.rollout.observation import ReplyWatch
from specdecode.rollout.rows import conclude
from specdecode.rollout.spool_ticket import Ticket
from specdecode.rollout.usage import UsageFilter

if TYPE_CHECKING:
    from specdecode.rollout.recording import Recorder, Rows


class Leg:
    """One request to one arm, on its way to a row. No method raises.

    Args:
        recorder: told when something breaks.
        rows: where the row goes.
        asked: what was known before the reply.
        watch: reads what passes.
        ticket: of its first line.
        partner: id of the other half of a pair, which does not count without this one.
        counted: the request's body with a wish for token counts; None to send it as it came.
        bodies: keeps texts; None if nobody asked for that.
        body: of the request as it came, for them.
        sent: called as the request goes out; None where nobody waits for that.
    """

    def __init__(
        self,
        recorder: Recorder,
        rows: Rows,
        asked: Mapping[str, Any],
        watch: ReplyWatch,
        *,
        ticket: Ticket,
        partner: str | None = None,
        counted: bytes | None = None,
        bodies: Bodies | None = None,
        body: bytes = b"",
        sent: Callable[[], None] | None = None,
    ) -> None:
        self._recorder, self._rows, self._asked = recorder, rows, asked
        self.watch, self._partner = watch, partner
        self._ticket: Ticket | None = ticket
        self.counted, self._bodies, self._body = counted, bodies, body
        self.sent = sent
        self._filter: UsageFilter | None = None
        self._has_ended = self._is_kept = False
        self._usable = True

    @property
    def request_id(self) -> str:
        """Of the row."""
        return str(self._asked["request_id"])

    @property
    def filters(self) -> bool:
        """Whether the client gets less than the server sends."""
        return self._filter is not None

    async def on_record(self) -> None:
        """Wait, within bounds, until a crash of the router would leave a row of this request.

        To be called before the client gets any of a reply; as a rule there is nothing to wait for.
        """
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            await self._recorder.patience.wait(ticket)

    def headers(self, status: int, headers: Mapping[str, str]) -> None:
        """The reply has begun."""
        if self.counted is not None and UsageFilter.fits(status, headers):
            self._filter = UsageFilter()
        self._safely("headers", lambda: self.watch.headers(status, headers, monotonic()))

    def chunk(self, data: bytes, at: float) -> None:
        """More of its body.

        Args:
            data: as the server sent it.
            at: when it came, monotonic seconds; the client comes first and is not kept waiting.
        """
        self._safely("chunk", lambda: self.watch.chunk(data, at))

    def visible(self, data: bytes) -> bytes:
        """What the client may see of the next piece of the body."""
        return data if self._filter is None else self._filter.feed(data)

    def left(self) -> bytes:
        """What the client may see of it beyond that, at its end."""
        return b"" if self._filter is None else self._filter.close()

    def ended(self, error: str | None = None) -> None:
        """It is over; later calls change nothing.

        Args:
            error: "class: detail" of what ended it; None when the body came to its end.
        """
        if self._has_ended:
            return
        self._has_ended = True
        at = monotonic()
        self._safely("end", lambda: self.watch.ended(at, error))

    def keep(self, *, accepted_elsewhere: bool = False) -> None:
        """Write down what became of it: a row, or why there is none. Only the first call counts.

        Args:
            accepted_elsewhere: the other server answered the same request.
        """
        if self._is_kept:
            return
        self._is_kept = True
        self._safely("row", lambda: self._conclude(accepted_elsewhere=accepted_elsewhere))
        if self._usable:
            self._recorder.worked()
        else:
            self._give_up()

    def drop(self, why: str) -> None:
        """There is no row of it, through no fault of the arm."""
        if self._is_kept:
            return
        self._is_kept = True
        self._safely("row", lambda: self._without(why))

    def _give_up(self) -> None:
        """No row can be made, but the record should not wait for one either."""
        self._recorder.unrecorded += 1
        try:
            self._without("the router could not make a row")
        except Exception as error:  # noqa: BLE001 - a user is being answered
            self._recorder.broke("row", error)

    def _without(self, why: str) -> None:
        retract = () if self._partner is None else (self._partner,)
        self._rows.without_row("unjudged", self.request_id, why, retract=retract)

    def _conclude(self, *, accepted_elsewhere: bool) -> None:
        conclude(
            self._rows,
            self._asked,
            self.watch,
            partner=self._partner,
            accepted_elsewhere=accepted_elsewhere,
        )
        if self._bodies is not None and self._bodies.wants(self._asked["prompt_id"]):
            self._bodies.keep(self.request_id, self._body, self.watch.text)

    def _safely(self, where: str, do: Callable[[], None]) -> None:
        if not self._usable:
            return
        try:
            do()
        except Exception as error:  # noqa: BLE001 - a user is being answered
            self._usable = False
            self._recorder.broke(where, error)
