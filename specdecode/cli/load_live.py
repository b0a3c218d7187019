"""A load run while it goes on: drawn on a terminal, a line now and then in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from specdecode.cli.console import number
from specdecode.cli.log_lines import told_in_lines

if TYPE_CHECKING:
    from specdecode.workload.load.progress import Progress
    from specdecode.workload.load.run import Show


def show_progress(console: Console, what: str) -> Show:
    """A way to show progress: drawn four times a second on a terminal, else in lines.

    Args:
        console: to show it on.
        what: is done, for a log.
    """

    def show(progress: Progress) -> AbstractContextManager[None]:
        if console.is_terminal:
            return _live(progress, console)
        return told_in_lines(console, "load", what, lambda: progress_line(progress))

    return show


@contextmanager
def _live(progress: Progress, console: Console) -> Iterator[None]:
    # The renderer runs in a thread of rich and only reads; a torn read shows for a quarter second.
    with Live(
        console=console,
        get_renderable=lambda: progress_table(progress),
        refresh_per_second=4,
        transient=True,
    ):
        yield


def progress_line(progress: Progress) -> str:
    """Counts of the run so far, in one line."""
    return (
        f"{max(0.0, progress.now_s):.0f} s, {progress.phase}: {_sent(progress)}; "
        f"{progress.ok} ok, {progress.cancelled} cancelled, {_failed(progress)} failed, "
        f"{progress.tokens} tokens"
    )


def progress_table(progress: Progress) -> Table:
    """Counts of the run so far."""
    table = Table.grid(padding=(0, 2))
    for name, value in (
        (progress.phase, f"{max(0.0, progress.now_s):.0f} s"),
        ("sent", _sent(progress).removeprefix("sent ")),
        ("done", f"{progress.ok} ok, {progress.cancelled} cancelled, {progress.tokens} tokens"),
        ("failed", _failed(progress)),
        ("TTFT, median of the last", _median(progress.recent_ttft_s)),
        ("TPOT, median of the last", _median(progress.recent_tpot_s)),
        ("client lag, worst of the last", _worst(progress.recent_lag_s)),
    ):
        table.add_row(Text(name, style="dim"), Text(value))
    return table


def _sent(progress: Progress) -> str:
    planned = "" if progress.total is None else f" of {progress.total}"
    return f"sent {progress.sent}{planned}, {progress.in_flight} in flight"


def _failed(progress: Progress) -> str:
    kinds = sorted(dict(progress.failed).items())  # a copy: the run goes on meanwhile
    return ", ".join(f"{n} {kind}" for kind, n in kinds) or "0"


def _median(values: Iterable[float]) -> str:
    held = list(values)
    return number(1e3 * median(held) if held else None, 1, " ms")


def _worst(values: Iterable[float]) -> str:
    held = list(values)
    return number(1e3 * max(held) if held else None, 1, " ms")
