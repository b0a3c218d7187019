"""A load run on the terminal while it goes on; nothing in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from specdecode.cli.console import number

if TYPE_CHECKING:
    from specdecode.workload.load.progress import Progress
    from specdecode.workload.load.run import Show


def show_progress(console: Console) -> Show:
    """A way to show progress: drawn four times a second on a terminal, else not at all."""

    def show(progress: Progress) -> AbstractContextManager[None]:
        return _live(progress, console) if console.is_terminal else nullcontext()

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


def progress_table(progress: Progress) -> Table:
    """Counts of the run so far."""
    table = Table.grid(padding=(0, 2))
    planned = "" if progress.total is None else f" of {progress.total}"
    failed = ", ".join(f"{n} {kind}" for kind, n in sorted(dict(progress.failed).items()))
    for name, value in (
        (progress.phase, f"{max(0.0, progress.now_s):.0f} s"),
        ("sent", f"{progress.sent}{planned}, {progress.in_flight} in flight"),
        ("done", f"{progress.ok} ok, {progress.cancelled} cancelled, {progress.tokens} tokens"),
        ("failed", failed or "0"),
        ("TTFT, median of the last", _median(progress.recent_ttft_s)),
        ("TPOT, median of the last", _median(progress.recent_tpot_s)),
        ("client lag, worst of the last", _worst(progress.recent_lag_s)),
    ):
        table.add_row(Text(name, style="dim"), Text(value))
    return table


def _median(values: Iterable[float]) -> str:
    held = list(values)
    return number(1e3 * median(held) if held else None, 1, " ms")


def _worst(values: Iterable[float]) -> str:
    held = list(values)
    return number(1e3 * max(held) if held else None, 1, " ms")
