"""Work whose OpenMP threads end with it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def apart(work: Callable[[], T]) -> T:
    """Do something in a thread of its own, which ends.

    libgomp, with which torch computes on CPUs, keeps a pool for every thread that has computed. As
    soon as all pools together have more threads than there are cores, a thread that waits for its
    part of an operation no longer spins but sleeps, and is woken by the kernel: some hundred times
    a decoding step, which then takes up to twice as long. So a program whose engine has a thread
    for itself loads and warms it in one that is gone by then.

    Returns:
        What the work returns.

    Raises:
        What it raises.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="apart") as thread:
        return thread.submit(work).result()
