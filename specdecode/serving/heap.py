"""Memory that was freed goes back to the operating system, now and then.

Replies of different lengths come and go, and with them buffers of every size. What they leave are
holes between buffers that are still in use; glibc keeps such holes, so that a server's memory
creeps up to what the unluckiest layout so far took, tens of megabytes above what it uses.

glibc gives every thread a heap of its own, and of all but the main one it never returns the upper
end, up to 64 MB. So a server's threads share that one: nearly all they ask for is large and rare.
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
_M_ARENA_MAX: Final = -8  # of <malloc.h>


def share_one() -> bool:
    """Let threads that begin from now on use the main thread's heap. Call before any has begun.

    Returns:
        Whether they will; False where the C library is not glibc.
    """
    mallopt = _of_libc("mallopt")
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, 1))


def trim() -> bool:
    """Give back the pages of the C heap on which nothing lives.

    Returns:
        Whether there were any; False where the C library is not glibc, or has no heap to trim.
    """
    malloc_trim = _of_libc("malloc_trim")
    return malloc_trim is not None and bool(malloc_trim(ctypes.c_size_t(0)))


async def trim_on(every_s: float = EVERY_S, trim: Callable[[], bool] = trim) -> None:
    """Trim again and again, in a thread beside the event loop, until cancelled."""
    while True:
        await asyncio.to_thread(trim)
        await asyncio.sleep(every_s)


def _of_libc(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), name, None) if _IS_LINUX else None
