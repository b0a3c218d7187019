"""Counts of streamed replies, asked for on the way to a server and taken out on the way back.

OpenAI-compatible servers count the tokens of a stream only if `stream_options.include_usage` asks
for it, in a last event without choices; engines that tell how drafting went do so in that event,
too. A client that did not ask for it must not get it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_END: Final = re.compile(rb"(?:\r\n|\n)(?:\r\n|\n)|\r\r(?!\n)")
_NO_CHOICES: Final = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_MOST_BYTES: Final = 64 << 10
_ASK: Final = b'{"stream_options":{"include_usage":true},'


def with_usage(raw: bytes, body: Mapping[str, Any]) -> bytes | None:
    """A request for a stream that also asks for its counts.

    Args:
        raw: the request's bytes; all of them stay as they are, unless the request has options of
            its own.
        body: the same, parsed.

    Returns:
        The bytes to send; None if nothing is to be changed: it asks for no stream, or for the
        counts already. Only what comes back for a changed request is to be filtered.
    """
    if body.get("stream") is not True:
        return None
    if "stream_options" not in body:
        start = raw.find(b"{")
        return _ASK + raw[start + 1 :] if start >= 0 else None
    options = body["stream_options"]
    if options is None:
        options = {}
    if not isinstance(options, Mapping) or options.get("include_usage") is True:
        return None
    asked = {**body, "stream_options": {**options, "include_usage": True}}
    return json.dumps(asked).encode("ascii")


class UsageFilter:
    """Leaves the event with the counts out of a stream, and every other byte as it is.

    Events pass as soon as they are whole. One without an end passes piece by piece from 64 KiB on.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._within = False  # an event too large to be held passes

    @staticmethod
    def fits(status: int, headers: Mapping[str, str]) -> bool:
        """Whether a reply is a stream that can be filtered; others must pass as they are."""
        lower = {name.lower(): value.lower() for name, value in headers.items()}
        kind = lower.get("content-type", "").split(";")[0].strip()
        plain = lower.get("content-encoding", "identity").strip() == "identity"
        return status == 200 and kind == "text/event-stream" and plain

    def feed(self, data: bytes) -> bytes:
        """What of the stream may pass now."""
        self._held += data
        passed = bytearray()
        start = 0
        for end in (match.end() for match in _END.finditer(self._held)):
            event = bytes(self._held[start:end])
            if self._within or not _is_usage(event):
                passed += event
            self._within = False
            start = end
        del self._held[:start]
        if len(self._held) > _MOST_BYTES or (self._within and self._held):
            # The end may be split: its first half stays.
            keep = len(self._held) - len(self._held.rstrip(b"\r\n"))
            split = len(self._held) - keep
            passed += self._held[:split]
            del self._held[:split]
            self._within = True
        return bytes(passed)

    def close(self) -> bytes:
        """What is left when the stream ends; it may be half an event."""
        left = bytes(self._held)
        self._held.clear()
        return left if self._within or not _is_usage(left) else b""


def _is_usage(event: bytes) -> bool:
    if b'"usage"' not in event or not _NO_CHOICES.search(event):
        return False
    lines = re.split(rb"\r\n|\r|\n", event)
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(found, dict)
        and found.get("choices") == []
        and isinstance(found.get("usage"), dict)
        and "error" not in found
    )
