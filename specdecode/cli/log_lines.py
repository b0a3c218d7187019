"""Progress where there is no terminal: a line at the start, one now and then, one at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

EVERY_S = 30.0


@contextmanager
def told_in_lines(
    console: Console, name: str, what: str, now: Callable[[], str], every_s: float = EVERY_S
) -> Iterator[None]:
    """Tell a log that something has begun, how far it is, and that it is over.

    Args:
        console: of the log.
        name: of what goes on; begins every line.
        what: goes on.
        now: how far it is; called by another thread, so it may only read.
        every_s: seconds between two lines.
    """
    over = threading.Event()

    def say(text: str) -> None:
        console.print(Text(f"{name}: {text}"))

    def tell() -> None:
        while not over.wait(every_s):
            say(now())

    say(f"begins, {what}")
    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        say(f"over, {now()}")
