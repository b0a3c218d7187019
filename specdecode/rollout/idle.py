"""Whether users leave the baseline alone at this moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Idleness:
    """Counts the requests of users that are being answered.

    Args:
        quiet_s: seconds without any after which the baseline counts as idle. A user who reads an
            answer before asking on does not want to find the machine busy.
        changed: called when the last of them ends, such as `Mirror.wake`.
        clock: monotonic seconds.

    Raises:
        ValueError: `quiet_s` is negative.
    """

    def __init__(
        self,
        quiet_s: float = 0.0,
        changed: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not quiet_s >= 0:
            raise ValueError(f"quiet_s is {quiet_s}; it must be at least 0")
        self._quiet_s, self._changed, self._clock = quiet_s, changed, clock
        self._busy = 0
        self._since = clock() - quiet_s  # nobody has asked yet

    @contextmanager
    def user(self) -> Iterator[None]:
        """Around the answer to one user."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy:
                self._since = self._clock()
                if self._changed is not None:
                    self._changed()

    @property
    def busy(self) -> int:
        """Users who wait for an answer or are reading one."""
        return self._busy

    def is_idle(self) -> bool:
        """Whether there are none, and have been none for `quiet_s`."""
        return not self._busy and self._clock() - self._since >= self._quiet_s
