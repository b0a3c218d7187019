"""Which addresses only this machine can reach."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is of this machine alone.

    Args:
        host: an address, or "localhost"; any other name may lead anywhere, and is none.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
