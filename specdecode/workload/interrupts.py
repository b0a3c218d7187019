"""A signal that ends a measurement ends its servers, too."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """TERM ends it like Ctrl-C: otherwise servers that were started would outlive it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
