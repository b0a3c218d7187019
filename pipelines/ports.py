"""Free ports for servers that must be told theirs before they start."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

_HANDED_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUALLY_FROM = 32_768
_LOWEST = 10_000
_ATTEMPTS = 100


def free_ports(number: int = 1) -> list[int]:
    """Different ports of loopback that nobody uses, and that nobody is given by chance.

    The system gives a port to every connection that is opened and to everybody who asks for any.
    One of those might be gone when a server that starts slowly comes to take it, so these lie below
    them.

    Args:
        number: how many.
    """
    with contextlib.ExitStack() as held:  # all at once, so that no two are the same
        return [_bound(held.enter_context(socket.socket())) for _ in range(number)]


def _bound(probe: socket.socket) -> int:
    below = range(_LOWEST, _first_handed_out())
    for port in random.SystemRandom().sample(below, min(_ATTEMPTS, len(below))):
        with contextlib.suppress(OSError):  # somebody has it
            probe.bind(("127.0.0.1", port))
            return port
    probe.bind(("127.0.0.1", 0))  # a system that hands out nearly all of them
    return int(probe.getsockname()[1])


def _first_handed_out() -> int:
    try:
        return int(_HANDED_OUT.read_text().split()[0])
    except (OSError, ValueError, IndexError):  # not Linux
        return _USUALLY_FROM
