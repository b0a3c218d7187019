"""What passes of a reply, read on the way without changing a byte of it.

Latencies are those that a client of the arm saw: from when the router sent the request to the first
output and to the last. They are defined once, in `workload.load.observation`. A reply that does not
stream has no first token, so it has neither `ttft_s` nor `tpot_s`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from specdecode.rollout.decompression import Decompressor
from specdecode.rollout.reply_text import as_event, detail_of, hidden_output, refusal
from specdecode.rollout.rows import asked_of, details_of, record_of
from specdecode.workload.engines import adapter_of
from specdecode.workload.load.faults import (
    CANCELLED,
    DISCONNECTED,
    EMPTY,
    MALFORMED,
    NO_DONE,
    NOT_A_STREAM,
    TRUNCATED,
    Fault,
    class_of_status,
)
from specdecode.workload.load.observation import Observation
from specdecode.workload.load.payload import Payload, mended, read_payload
from specdecode.workload.sse import EventTooLargeError, SseParser

__all__ = ["REFUSALS", "ReplyWatch", "asked_of", "details_of", "record_of"]

REFUSALS: Final = frozenset(range(400, 500)) - {408, 409, 425, 429, 499}
"""Statuses that say that the request itself is wrong, its credentials included, which any server
would have refused. The others of HTTP 4xx are about load and time."""

_MOST_BODY: Final = 16 << 20
_MOST_TEXT: Final = 1 << 20
_MOST_ERROR: Final = 4096
_KEPT_EVENTS: Final = 4
_ENGINES: Final = ("vllm", "sglang", "llama.cpp", "tgi", "tensorrt-llm")


class ReplyWatch:
    """Watches one reply of one arm.

    Nothing that a server sends raises: what is wrong with it is its row's error.

    Args:
        started: when the request was sent, monotonic seconds; all times are of that clock.
        streaming: whether it asked for a stream.
        keep_ids: keep the ids of tokens, where the server sends them.

    Attributes:
        status: of HTTP, or None.
        text: of the reply as far as it is kept, for comparison in memory; never in a row.
        chars: characters of the reply.
        system_fingerprint: of the engine, or None.
        done: whether the reply is whole.
    """

    def __init__(self, *, started: float, streaming: bool, keep_ids: bool = False) -> None:
        self.status: int | None = None
        self.chars = 0
        self.system_fingerprint: str | None = None
        self.done = False
        self._streaming, self._keep_ids = streaming, keep_ids
        self._seen = Observation(due=started)
        self._parser = SseParser() if streaming else None
        self._decompressor: Decompressor | None = None
        self._body = bytearray()
        self._unread = 0  # bytes of a body too large to be looked into
        self._fault: Fault | None = None
        self._cut: Fault | None = None
        self._text: list[str] = []
        self._hash = hashlib.sha256()
        self._hashed = False
        self._at = started

    def headers(self, status: int, headers: Mapping[str, str], at: float) -> None:
        """The reply has begun."""
        self.status = self._seen.status_code = status
        self._seen.headers = self._at = at
        lower = {name.lower(): value.lower() for name, value in headers.items()}
        kind = lower.get("content-type", "").split(";")[0].strip()
        if not 200 <= status < 300:
            self._parser = None
        elif kind == "text/event-stream":
            self._parser = self._parser or SseParser()
        elif self._streaming and kind:
            self._parser = None
            self._fault = Fault(NOT_A_STREAM, f"content type {kind[:80]!r}")
        if (coding := lower.get("content-encoding", "identity")) != "identity":
            self._decompressor = Decompressor(coding)

    def chunk(self, data: bytes, at: float) -> None:
        """Some of its bytes, as they passed."""
        self._at = at
        try:
            if self._decompressor is not None:
                data = self._decompressor.feed(data, _MOST_BODY)
            if self._parser is None:
                most = _MOST_BODY if self._good else _MOST_ERROR
                self._unread += max(0, len(self._body) + len(data) - most)
                self._body += data[: most - len(self._body)]
                return
            for event in self._parser.feed(data):
                if event.done:
                    self.done = True
                elif not self.done and self._fault is None:
                    self._note(read_payload(event.data), at)
        except Fault as fault:
            self._fault = self._fault or fault
        except (EventTooLargeError, ValueError) as error:
            self._fault = self._fault or Fault(MALFORMED, f"{type(error).__name__}")

    def ended(self, at: float, error: str | None = None) -> None:
        """It is over.

        Args:
            at: when.
            error: "class: detail" of what ended it early, "cancelled" if that was the client; None
                if it came to its own end.
        """
        self._seen.ended = at
        if error is not None and not self.done:
            kind, _, detail = error.partition(":")
            self._cut = Fault(kind.strip() or DISCONNECTED, detail.strip())
        try:
            self._conclude()
        except Fault as fault:
            self._fault = fault
        if self._fault is not None:
            self._seen.fault = (self._fault.kind, detail_of(self._fault))

    # What the row is made of.

    @property
    def _good(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def cancelled(self) -> bool:
        """Whether the client left before the end, which is no failure of the arm."""
        return self._fault is not None and self._fault.kind == CANCELLED

    @property
    def refused(self) -> bool:
        """Whether the server says that the request itself is wrong."""
        return self.status in REFUSALS and not self.cancelled

    @property
    def error(self) -> str | None:
        """Why there is no whole reply, "class: detail"; None if there is."""
        if self._seen.fault is None:
            return None
        kind, detail = self._seen.fault
        return mended(f"{kind}: {detail}" if detail else kind)

    @property
    def ttft_s(self) -> float | None:
        """Seconds to the first output; None if there was none, or no stream."""
        return self._seen.ttft_s

    @property
    def tpot_s(self) -> float | None:
        """Seconds per output token after the first; None where unknown."""
        return self._seen.tpot_s

    @property
    def e2e_s(self) -> float | None:
        """Seconds to the last output of a whole reply."""
        return self._seen.e2e_s

    @property
    def prompt_tokens(self) -> int | None:
        """As the server counted; None if it does not tell."""
        return self._seen.prompt_tokens

    @property
    def output_tokens(self) -> int | None:
        """As the server counted; None if it does not tell. Chunks are no tokens."""
        return self._seen.output_tokens

    @property
    def finish_reason(self) -> str | None:
        """As the server says."""
        reason = self._seen.finish_reason
        return None if reason is None else mended(reason)[:40]

    @property
    def token_ids(self) -> list[int] | None:
        """Of the reply, where they are kept and the server sends them."""
        return self._seen.token_ids

    @property
    def prompt_token_ids(self) -> list[int] | None:
        """Of the prompt, likewise."""
        return self._seen.prompt_token_ids

    @property
    def acceptance(self) -> dict[str, Any]:
        """steps, drafted, accepted, acceptance_histogram, as far as the server tells them."""
        for name in _ENGINES:
            told = adapter_of(name).of_reply(self._seen.last_payloads).record_fields()
            found = {field: value for field, value in told.items() if value is not None}
            if found:
                return found
        return {}

    @property
    def text(self) -> str:
        """See the class."""
        return "".join(self._text)

    @property
    def text_sha256(self) -> str | None:
        """Of all output: text, reasoning, and what tools are called with; None without any."""
        return self._hash.hexdigest() if self._hashed else None

    def _conclude(self) -> None:
        """Raises the fault of a reply that is not whole."""
        if self._cut is not None:
            raise self._cut if self._fault is None else self._fault
        if self._fault is not None:
            raise self._fault
        if self.status is None:
            raise Fault(DISCONNECTED, "no reply")
        if not self._good:
            raise Fault(class_of_status(self.status), refusal(self.status, bytes(self._body)))
        if self._unread or (self._decompressor is not None and self._decompressor.blind):
            self._seen.last = self._at
            self.done = True
            return  # passed on, but not read: its numbers are unknown
        if self._parser is None:
            self._whole()
            return
        if not self.done:
            left = self._parser.close()
            if left is None:
                raise Fault(NO_DONE, "the stream ended without [DONE]; the reply may be cut off")
            if not left.done:  # else only the blank line after [DONE] is missing
                raise Fault(TRUNCATED, "the stream ended inside an event")
            self.done = True
        if not (self._seen.chunk_times or self._seen.finish_reason):
            raise Fault(EMPTY, "the stream was whole but held no output")

    def _whole(self) -> None:
        """Reads the body of a reply that did not stream."""
        payload = read_payload(as_event(bytes(self._body)))
        self._note(payload, self._at)
        self._seen.chunk_times.clear()  # the whole reply is no first token
        self._seen.last = self._at
        self.done = True
        if not (payload.output or payload.finish_reason):
            raise Fault(EMPTY, "the reply held no output")

    def _note(self, payload: Payload, now: float) -> None:
        seen = self._seen
        if payload.output:
            seen.chunk_times.append(now)
            self._take(payload)
        if self._keep_ids and payload.token_ids is not None:
            if seen.token_ids is None:
                seen.token_ids = []
            seen.token_ids += payload.token_ids  # in place: a copy at each event adds up
        if self._keep_ids and payload.prompt_token_ids is not None:
            seen.prompt_token_ids = payload.prompt_token_ids
        if payload.finish_reason is not None:
            seen.finish_reason = payload.finish_reason
        if payload.output or payload.finish_reason is not None:
            seen.last = now
        if payload.usage is not None:
            seen.usage = payload.usage
        fingerprint = payload.raw.get("system_fingerprint")
        if isinstance(fingerprint, str) and fingerprint:
            self.system_fingerprint = mended(fingerprint)[:200]
        seen.last_payloads = [*seen.last_payloads, payload.raw][-_KEPT_EVENTS:]

    def _take(self, payload: Payload) -> None:
        """Hash and keep what came. Text is hashed as one, however it was cut into events."""
        if payload.text:
            self._hash.update(payload.text.encode("utf-8", "surrogatepass"))
            self._hashed = True
            self.chars += len(payload.text)
            if self.chars <= _MOST_TEXT:
                self._text.append(payload.text)
        for part in hidden_output(payload.raw):
            self._hash.update(part.encode("utf-8", "surrogatepass"))
            self._hashed = True
