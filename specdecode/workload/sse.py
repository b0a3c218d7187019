"""Server-sent events: bytes in as they arrive, events out as soon as each is whole.

The stream format of the WHATWG HTML standard, section "Server-sent events": lines end with CRLF, LF
or CR, in any mixture; a blank line ends an event; a line that starts with a colon is a comment. How
the bytes were split on the way makes no difference to what comes out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from specdecode.errors import EngineError

DONE = "[DONE]"
"""Data of the event with which OpenAI-compatible servers say that a stream is complete."""

MAX_EVENT_BYTES = 16 << 20
"""An event larger than this is refused: a server must not fill the memory of its client."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventTooLargeError(EngineError):
    """A server sent an event without an end; read from one that frames its stream."""


@dataclass(frozen=True)
class Event:
    """One event.

    Args:
        data: its data lines, joined by newlines.
        event: its type; "message" unless the server named one.
        id: the last id the server has sent, "" if none.
    """

    data: str
    event: str = "message"
    id: str = ""

    @property
    def done(self) -> bool:
        """Whether this is the mark that ends a complete stream."""
        return self.data.strip() == DONE


class SseParser:
    """Reads one stream, from its first byte.

    Args:
        max_event_bytes: most bytes of an event that is not yet whole.

    Attributes:
        comments: comment lines so far; servers send them to keep a connection open, so they are
            a sign of life, never output.
        retry_ms: the delay before reconnecting that the server asked for last, or None.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.comments = 0
        self.retry_ms: int | None = None
        self._max_event_bytes = max_event_bytes
        self._line = bytearray()  # of a line whose end has not come yet
        self._data: list[str] = []
        self._held = 0  # bytes of data lines kept
        self._event = ""
        self._id = ""
        self._at_start = True
        self._after_cr = False

    def feed(self, some: bytes) -> list[Event]:
        """The events that these bytes complete.

        Raises:
            EventTooLargeError: an event grew beyond the limit before it ended.
        """
        if not some:
            return []
        if self._after_cr and some.startswith(b"\n"):
            some = some[1:]  # the second half of a CRLF that was split
        self._after_cr = some.endswith(b"\r")
        first, *others = _LINE_END.split(some)
        self._line += first
        found: list[Event] = []
        for other in others:
            event = self._take(bytes(self._line))
            self._line = bytearray(other)
            if event is not None:
                found.append(event)
        if self._held + len(self._line) > self._max_event_bytes:
            raise EventTooLargeError(
                f"the server sent more than {self._max_event_bytes} bytes without ending an event; "
                "check that the address is that of an event stream"
            )
        return found

    def close(self) -> Event | None:
        """What the end of the stream cut off, or None.

        The standard discards it. A caller who treats it as an event must know that it may be half
        of one; a caller who does not may take it as proof that the stream was truncated.
        """
        if self._line:
            self._take(bytes(self._line))
            self._line.clear()
        return self._take(b"")

    def _take(self, line: bytes) -> Event | None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            self.comments += 1
            return None
        # A line holds whole characters: no byte of a UTF-8 sequence is CR or LF.
        name, _, value = line.decode("utf-8", errors="replace").partition(":")
        self._field(name, value.removeprefix(" "), len(line))
        return None

    def _field(self, name: str, value: str, size: int) -> None:
        if name == "data":
            self._data.append(value)
            self._held += size
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdecimal() and len(value) < 19:
            self.retry_ms = int(value)

    def _dispatch(self) -> Event | None:
        data, event = self._data, self._event
        self._data, self._event, self._held = [], "", 0
        if not data:
            return None  # an event without data is none, whatever else it names
        return Event("\n".join(data), event or "message", self._id)
