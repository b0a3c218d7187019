"""The time a distillation may take, counted over all its runs: a kill gives none of it back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from specdecode.distil.texts import read_page, write_page
from specdecode.errors import ConfigError

WRITING, TRAINING = 0.68, 0.93
"""Shares of the time at which these end; the rest is for the evaluation."""


class Budget:
    """Counts time.

    Args:
        minutes: all there is; None for no limit.
        path: where the time used is kept.
        clock: seconds, rising.

    Raises:
        ConfigError: no time at all.
    """

    def __init__(
        self, minutes: float | None, path: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if minutes is not None and not 0 < minutes < float("inf"):
            raise ConfigError(f"--minutes {minutes:g}: give a number of minutes above 0")
        self._seconds = None if minutes is None else 60 * minutes
        self._path, self._clock = path, clock
        self._before = float((read_page(path) or {}).get("used_s", 0.0))
        self._begun = clock()

    @property
    def used_s(self) -> float:
        """Seconds so far, earlier runs included."""
        return self._before + self._clock() - self._begun

    def save(self) -> None:
        """Keep the time used, for the run that may follow."""
        write_page(self._path, {"used_s": round(self.used_s, 3)})

    def left_s(self, share: float) -> float | None:
        """Seconds until this share of the time is used; None without a limit."""
        return None if self._seconds is None else share * self._seconds - self.used_s

    def is_over(self, share: float) -> bool:
        """Whether this share of the time is used."""
        left = self.left_s(share)
        return left is not None and left <= 0
