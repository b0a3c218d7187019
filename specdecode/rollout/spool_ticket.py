"""Proof that a line which was handed over has left this process, and who waits for that.

A thread writes lines some time after they were handed over, as a rule within a millisecond. Whoever
must not go on before that (a reply must not be ahead of its record) waits with a ticket, and with
bounded patience: a disk that hangs delays few answers, and each of them by little.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Protocol

_FIRST_LOOK_S, _NEXT_LOOKS_S = 0.0005, 0.01


class Progress(Protocol):
    """How far a writer has come."""

    @property
    def written(self) -> int:
        """The lines handed over so far that the operating system has."""

    @property
    def stuck(self) -> bool:
        """Whether it does not go on by itself at the moment."""


class Ticket:
    """One line that was handed over.

    Args:
        progress: of whoever writes.
        number: of the line among all that were handed over; None if it was not taken.
    """

    __slots__ = ("_number", "_progress")

    def __init__(self, progress: Progress, number: int | None) -> None:
        self._progress, self._number = progress, number

    @property
    def written(self) -> bool:
        """Whether the line outlives this process."""
        return self._number is not None and self._progress.written >= self._number

    async def wait(self, patience_s: float) -> bool:
        """Wait until it is written; not where that cannot be expected.

        Args:
            patience_s: most seconds.

        Returns:
            Whether it is.
        """
        until, pause_s = monotonic() + patience_s, _FIRST_LOOK_S
        while not self.written:
            if self._number is None or self._progress.stuck or monotonic() >= until:
                return self.written
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _NEXT_LOOKS_S)
        return True


class Patience:
    """Waits for tickets, and for none while an older one has run out of time.

    Args:
        most_s: seconds that one answer waits.

    Attributes:
        ahead: answers that went out before their line was written.
    """

    def __init__(self, most_s: float = 1.0) -> None:
        self._most_s = most_s
        self._overdue: Ticket | None = None
        self.ahead = 0

    async def wait(self, ticket: Ticket) -> None:
        """Wait for a line, or go on without."""
        if ticket.written:
            return
        if self._overdue is not None and not self._overdue.written:
            self.ahead += 1
        elif await ticket.wait(self._most_s):
            self._overdue = None
        else:
            self._overdue = ticket
            self.ahead += 1
