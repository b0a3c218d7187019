"""A sweep on the terminal while it goes on; one line per failure in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from specdecode.cli.load_live import progress_table

if TYPE_CHECKING:
    from specdecode.workload.sweep.run import Show, SweepProgress


def show_sweep(console: Console) -> Show:
    """A way to show progress: drawn on a terminal; else only what failed, at the end."""

    def show(progress: SweepProgress) -> AbstractContextManager[None]:
        return _live(progress, console)

    return show


@contextmanager
def _live(progress: SweepProgress, console: Console) -> Iterator[None]:
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
            yield
    finally:
        for failure in progress.failures:
            console.print(Text(f"{failure.arm} failed in round {failure.round}: {failure.reason}"))


def picture(progress: SweepProgress) -> Group:
    """Which cell is under way, and its load run."""
    doing = (
        "its server starts"
        if progress.concurrency is None
        else f"concurrency {progress.concurrency}"
    )
    head = Text(f"{progress.done} of {progress.total} cells")
    if progress.arm:
        head.append(f"; round {progress.round}, {progress.arm}: {doing}", style="bold")
    failed = [Text(f"failed: {failure.arm}", style="red") for failure in progress.failures]
    load = [] if progress.load is None else [progress_table(progress.load)]
    return Group(head, *failed, *load)
