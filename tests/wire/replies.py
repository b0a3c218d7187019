"""Scripts for the wire server: JSON, event streams, and every way they go wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.wire.server import Pause, Reset, Script

_REASONS = {
    200: "OK",
    401: "Unauthorized",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    307: "Temporary Redirect",
}


def reply(
    body: bytes, kind: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Script:
    fields = {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}
    return (_head(status, fields), body)


def json_reply(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Script:
    return reply(json.dumps(body).encode(), "application/json", status, headers)


def text_reply(text: str, status: int = 200, kind: str = "text/plain; version=0.0.4") -> Script:
    return reply(text.encode(), kind, status)


def error_reply(status: int, message: str, headers: Mapping[str, str] | None = None) -> Script:
    error = {"message": message, "type": "error", "param": None, "code": status}
    return json_reply({"error": error}, status, headers)


def event(data: Any, *, newline: str = "\n", space: bool = True) -> bytes:
    """One event: JSON, or text as it is, whose lines become data lines."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    name = "data: " if space else "data:"
    lines = [f"{name}{line}{newline}" for line in text.split("\n")]
    return "".join([*lines, newline]).encode()


def events(
    payloads: Iterable[Any], *, done: bool = True, newline: str = "\n", space: bool = True
) -> list[bytes]:
    """A stream's events, with the mark that ends a complete one."""
    found = [event(payload, newline=newline, space=space) for payload in payloads]
    return [*found, event("[DONE]", newline=newline, space=space)] if done else found


def stream(pieces: Iterable[bytes], *, end: str = "whole", delay_s: float = 0.0) -> Script:
    """A stream, one HTTP chunk for each piece.

    Args:
        pieces: bytes; where they are cut is the test's business.
        end: "whole"; "cut" to close without the last chunk; "reset" to break the connection.
        delay_s: pause before each piece.
    """
    script: list[bytes | Pause | Reset] = [_head(200, _STREAM)]
    for piece in pieces:
        script += [Pause(delay_s)] if delay_s else []
        script.append(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    last: dict[str, list[bytes | Pause | Reset]] = {
        "whole": [b"0\r\n\r\n"],
        "cut": [],
        "reset": [Reset()],
    }
    return [*script, *last[end]]


def every(size: int, pieces: Iterable[bytes]) -> list[bytes]:
    """The same bytes in pieces of one size: through events, characters and line ends."""
    whole = b"".join(pieces)
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def with_comments(pieces: Sequence[bytes]) -> list[bytes]:
    """A comment line before every event, as servers and proxies send to keep a connection open."""
    return [part for piece in pieces for part in (b": ping\n\n", piece)]


def late_headers(script: Script, seconds: float) -> Script:
    """Nothing at all for a while, not even a status line."""
    return [Pause(seconds), *script]


def cut_inside(pieces: Sequence[bytes], keep: int) -> list[bytes]:
    """The first pieces whole, and half of the one after them."""
    return [*pieces[:keep], pieces[keep][: len(pieces[keep]) // 2]]


_STREAM = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Transfer-Encoding": "chunked",
    "Cache-Control": "no-cache",
}


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS[status]}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
