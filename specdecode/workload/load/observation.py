"""What a client saw of one reply, as raw times; latencies are computed from it, in one place.

All times are seconds since the start of the run, by one monotonic clock.

    due          when it should have been sent: open loop the schedule, closed loop the sending
    sent         when the client began to send it
    first        when the first output was there
    last         when the last output, or the event that names the reason for the end, was there
    ended        when the exchange was over, for whatever reason
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from specdecode.workload.load.payload import count

Status = Literal["ok", "cancelled", "failed"]


@dataclass
class Observation:
    """One exchange, filled in while it goes on.

    Attributes:
        chunk_times: of every event with output.
        chunk_tokens: tokens of each, None where the server does not tell.
        output_tokens: of the whole reply by the server's count; None is unknown. Chunks are never
            counted as tokens: under speculation one carries several.
        last_payloads: of the last events, where engines say more than output.
        fault: class and detail of the failure, or None.
        asked_again: on a new connection, because the old one was found closed.
    """

    due: float
    sent: float | None = None
    headers: float | None = None
    ended: float | None = None
    last: float | None = None
    chunk_times: list[float] = field(default_factory=list)
    chunk_tokens: list[int | None] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    last_payloads: list[Mapping[str, Any]] = field(default_factory=list)
    status_code: int | None = None
    fault: tuple[str, str] | None = None
    retry_after: str | None = None
    asked_again: bool = False
    cancelled: bool = False
    queued_s: float = 0.0

    @property
    def status(self) -> Status:
        """How it ended."""
        if self.fault is not None:
            return "failed"
        return "cancelled" if self.cancelled else "ok"

    @property
    def first(self) -> float | None:
        """Time of the first output."""
        return self.chunk_times[0] if self.chunk_times else None

    @property
    def output_tokens(self) -> int | None:
        """See the class."""
        told = count(self.usage, "completion_tokens")
        if told is not None:
            return told
        return None if self.token_ids is None else len(self.token_ids)

    @property
    def prompt_tokens(self) -> int | None:
        """By the server's count; None is unknown."""
        told = count(self.usage, "prompt_tokens")
        if told is not None:
            return told
        return None if self.prompt_token_ids is None else len(self.prompt_token_ids)

    @property
    def ttft_s(self) -> float | None:
        """From when it was due to the first output."""
        return None if self.first is None else self.first - self.due

    @property
    def e2e_s(self) -> float | None:
        """From when it was due to the last output; None unless the reply is whole."""
        return None if self.last is None or self.status != "ok" else self.last - self.due

    @property
    def tpot_s(self) -> float | None:
        """(e2e − ttft) / (output tokens − 1); None with fewer than two or unknown tokens."""
        tokens, e2e, ttft = self.output_tokens, self.e2e_s, self.ttft_s
        if tokens is None or tokens < 2 or e2e is None or ttft is None:
            return None
        return (e2e - ttft) / (tokens - 1)

    @property
    def lag_s(self) -> float | None:
        """How late the client itself was: sending after due time, waits for a free slot left out.

        0 in a closed loop by definition.
        """
        return None if self.sent is None else max(0.0, self.sent - self.due - self.queued_s)

    @property
    def chunk_gaps_s(self) -> list[float]:
        """Times between events with output. 0 where several came in one read. Not per token."""
        return [b - a for a, b in zip(self.chunk_times, self.chunk_times[1:], strict=False)]

    @property
    def token_gaps_s(self) -> list[tuple[float, int]] | None:
        """Inter-token latency: (gap / tokens, tokens) of every event with tokens after the first.

        A gap is shared out evenly among the tokens that ended it. An event of 0 tokens, such as
        text that was held back, ends none. None unless the server told the tokens of each event
        after the first.
        """
        if len(self.chunk_times) < 2 or None in self.chunk_tokens[1:]:
            return None
        told = zip(self.chunk_times[1:], self.chunk_tokens[1:], strict=True)
        found: list[tuple[float, int]] = []
        before = self.chunk_times[0]
        for now, tokens in told:
            if tokens:
                found.append(((now - before) / tokens, tokens))
                before = now
        return found or None
