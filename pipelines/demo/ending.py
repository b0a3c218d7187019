"""Ending processes: asked first, killed where that does not help."""

from __future__ import annotations

import contextlib
import signal
import time

import psutil

STOP_S = 15.0
"""Seconds a program has to end in good order."""
_KILL_S = 5.0
_TICK_S = 0.1


def end_all(processes: list[psutil.Process]) -> None:
    """Ask each to end, then the children it has left behind; then kill what still runs."""
    children: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            children += process.children(recursive=True)
    # A parent ends its children itself, in its own order, if it can.
    for asked in (processes, children):
        for process in asked:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGTERM)
        still_running(asked, STOP_S)
    for process in (everything := [*processes, *children]):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    still_running(everything, _KILL_S)


def still_running(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that run after so long. One that only waits for its parent to notice has ended."""
    until, left = time.monotonic() + seconds, processes
    while left := [process for process in left if not has_ended(process)]:
        if time.monotonic() >= until:
            break
        time.sleep(_TICK_S)
    return left


def has_ended(process: psutil.Process) -> bool:
    """Whether nothing of it runs any more."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
