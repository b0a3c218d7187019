"""HTTP over a bare socket, for clients that break its rules or leave at any moment."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

JSON_HEADERS: Mapping[str, str] = {"Host": "x", "Content-Type": "application/json"}


def connected(
    url: str, timeout_s: float = 30.0, receive_buffer: int | None = None
) -> socket.socket:
    """A connection to the server at a base address.

    Args:
        url: http://host:port.
        timeout_s: of every later operation on it.
        receive_buffer: bytes that the kernel keeps for a slow reader; None for its default.
    """
    parts = urlsplit(url)
    connection = socket.socket(socket.AF_INET6 if ":" in (parts.hostname or "") else socket.AF_INET)
    connection.settimeout(timeout_s)
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    try:
        connection.connect((parts.hostname, parts.port))
    except OSError:
        connection.close()
        raise
    return connection


def post(
    body: bytes | Mapping[str, Any],
    path: str = "/v1/completions",
    headers: Mapping[str, str] = JSON_HEADERS,
) -> bytes:
    """A whole request of declared length."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head({**headers, "Content-Length": str(len(data))}, path) + data


def post_chunked(
    pieces: Sequence[bytes],
    path: str = "/v1/completions",
    headers: Mapping[str, str] = JSON_HEADERS,
) -> bytes:
    """A whole request in chunks, whose length is not declared."""
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    return head({**headers, "Transfer-Encoding": "chunked"}, path) + chunks + b"0\r\n\r\n"


def head(headers: Mapping[str, str], path: str = "/v1/completions") -> bytes:
    """Request line and headers."""
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def read_to_end(connection: socket.socket, most: int | None = None) -> bytes:
    """Everything up to the end of the connection, or of what `most` bytes there are.

    A reset ends it as well: a server that refuses a body may not read it to its end.

    Raises:
        TimeoutError: nothing came for as long as the connection's timeout.
    """
    found = b""
    while most is None or len(found) < most:
        try:
            piece = connection.recv(65536)
        except ConnectionError:
            break
        if not piece:
            break
        found += piece
    return found


def read_until(connection: socket.socket, mark: bytes, piece: int = 4096) -> bytes:
    """Everything up to and with a mark, or to the end of the connection.

    Args:
        connection: to read.
        mark: what to wait for.
        piece: bytes read at a time.
    """
    found = b""
    while mark not in found:
        came = connection.recv(piece)
        if not came:
            break
        found += came
    return found


def status_of(answer: bytes) -> int | None:
    """The status of an answer; None if there is none."""
    words = answer.split(b"\r\n", 1)[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return None
    return int(words[1])


def header_of(answer: bytes, name: str) -> str | None:
    """A header of an answer; None if it is not there."""
    for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name.lower().encode():
            return value.strip().decode("latin-1")
    return None


def reset(connection: socket.socket) -> None:
    """End a connection the hard way: the peer sees a reset instead of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
