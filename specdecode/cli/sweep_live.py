"""A sweep while it goes on: drawn on a terminal, a line now and then in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from specdecode.cli.load_live import progress_line, progress_table
from specdecode.cli.log_lines import told_in_lines

if TYPE_CHECKING:
    from specdecode.workload.sweep.progress import Show, SweepProgress


def show_sweep(console: Console, what: str) -> Show:
    """A way to show progress: drawn on a terminal, else in lines; what failed at the end.

    Args:
        console: to show it on.
        what: is done, for a log.
    """

    def show(progress: SweepProgress) -> AbstractContextManager[None]:
        return _live(progress, console, what)

    return show


@contextmanager
def _live(progress: SweepProgress, console: Console, what: str) -> Iterator[None]:
    try:
        if console.is_terminal:
            with Live(
                console=console,
                get_renderable=lambda: picture(progress),
                refresh_per_second=4,
                transient=True,
            ):
                yield
        else:
            with told_in_lines(console, "sweep", what, lambda: sweep_line(progress)):
                yield
    finally:
        for failure in progress.failures:
            console.print(Text(f"{failure.arm} failed in round {failure.round}: {failure.reason}"))


def sweep_line(progress: SweepProgress) -> str:
    """Which cell is under way, and its load run, in one line."""
    text = _cells(progress)
    if progress.arm:
        text += f"; {_doing(progress)}"
    if progress.failures:
        text += f"; failed: {', '.join(failure.arm for failure in progress.failures)}"
    return text if progress.load is None else f"{text}; load: {progress_line(progress.load)}"


def picture(progress: SweepProgress) -> Group:
    """Which cell is under way, and its load run."""
    head = Text(_cells(progress))
    if progress.arm:
        head.append(f"; {_doing(progress)}", style="bold")
    failed = [Text(f"failed: {failure.arm}", style="red") for failure in progress.failures]
    load = [] if progress.load is None else [progress_table(progress.load)]
    return Group(head, *failed, *load)


def _cells(progress: SweepProgress) -> str:
    return f"{progress.done} of {progress.total} cells"


def _doing(progress: SweepProgress) -> str:
    starts = progress.concurrency is None
    doing = "its server starts" if starts else f"concurrency {progress.concurrency}"
    return f"round {progress.round}, {progress.arm}: {doing}"
