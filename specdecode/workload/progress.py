"""Progress of a long run: a bar with the time left on a terminal, a few log lines in a pipe."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

log = logging.getLogger("specdecode.measure")

LOG_EVERY_S = 30.0

Advance = Callable[[str], None]
"""Called after each step with what it was, such as a request id."""


@contextmanager
def progress(
    label: str, total: int, done: int, console: Console | None = None
) -> Iterator[Advance]:
    """Show progress.

    Args:
        label: what is being done.
        total: number of steps in all.
        done: steps already behind us from an earlier run.
        console: where a bar would go; stderr by default, so that stdout stays free for results.

    Yields:
        A function to call after each step.
    """
    # FORCE_COLOR makes no terminal of a pipe.
    console = console or Console(stderr=True, force_terminal=None if sys.stderr.isatty() else False)
    if console.is_terminal:
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[step]}", style="dim"),
            console=console,
        ) as bar:
            task = bar.add_task(label, total=total, completed=done, step="")
            yield lambda step: bar.update(task, advance=1, step=step)
        return
    yield _LogLines(label, total, done)


class _LogLines:
    """Log at the start of a run, then at most every half minute, then at the end."""

    def __init__(self, label: str, total: int, done: int) -> None:
        self.label, self.total, self.done = label, total, done
        self.new, self.begun = 0, time.monotonic()
        self.last = self.begun
        log.info("%s: %d to do, %d already there", label, total - done, done)

    def __call__(self, step: str) -> None:
        self.done += 1
        self.new += 1
        now = time.monotonic()
        if now - self.last < LOG_EVERY_S and self.done < self.total:
            return
        self.last = now
        left = (now - self.begun) / self.new * (self.total - self.done)
        log.info(
            "%s: %d of %d, about %.0f s left (%s)", self.label, self.done, self.total, left, step
        )
