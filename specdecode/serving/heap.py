"""Memory that was freed goes back to the operating system, now and then.

Replies of different lengths come and go, and with them buffers of every size. What they leave are
holes between buffers that are still in use; glibc keeps such holes, so that a server's memory
creeps up to what the unluckiest layout so far took, tens of megabytes above what it uses.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 10.0
"""Between two times: each takes some milliseconds beside the engine, whatever is in use."""
_IS_LINUX: Final = sys.platform == "linux"


def trim() -> bool:
    """Give back the pages of the C heap on which nothing lives.

    Returns:
        Whether there were any; False where the C library is not glibc, or has no heap to trim.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if _IS_LINUX else None
    return malloc_trim is not None and bool(malloc_trim(ctypes.c_size_t(0)))


async def trim_on(every_s: float = EVERY_S, trim: Callable[[], bool] = trim) -> None:
    """Trim again and again, in a thread beside the event loop, until cancelled."""
    while True:
        await asyncio.to_thread(trim)
        await asyncio.sleep(every_s)
