"""Take the place to listen at, before anything that takes long."""

from __future__ import annotations

import errno
import socket

from specdecode.errors import ConfigError


def take_port(host: str, port: int) -> list[socket.socket]:
    """Sockets that are bound and do not listen yet: until then connections are refused.

    Args:
        host: name or address; every address that a name stands for is taken.
        port: 0 takes a free one.

    Returns:
        One socket an address, all with one port; for who listens to close.

    Raises:
        ConfigError: the host is unknown or not this machine's, or the port is taken or not allowed.
    """
    taken: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in dict.fromkeys(found):
            where = (address[0], taken[0].getsockname()[1] if taken else port, *address[2:])
            if (made := _bound(family, kind, protocol, where)) is not None:
                taken.append(made)
    except OSError as error:
        for each in taken:
            each.close()
        raise cannot_listen(host, port, error.strerror or str(error)) from error
    if not taken:
        raise cannot_listen(host, port, "it is no address of this machine")
    return taken


def cannot_listen(host: str, port: int, why: str) -> ConfigError:
    """The error for a place that is not to be had."""
    return ConfigError(
        f"cannot listen on {host or 'any address'}, port {port}: {why}. Give another --port (0 "
        "takes a free one) or --host"
    )


def _bound(
    family: int, kind: int, protocol: int, address: tuple[str | int, ...]
) -> socket.socket | None:
    """None where this machine lacks the address, as one without IPv6 lacks that of localhost."""
    try:
        made = socket.socket(family, kind, protocol)
    except OSError:
        return None
    try:
        # Connections of an earlier server that are still being closed do not count.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRNOTAVAIL:
            return None
        raise
    return made
