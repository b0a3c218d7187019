"""One reply on its way from the engine's thread to the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specdecode.decoding.logprobs import TokenLogprobs
from specdecode.decoding.request import Request
from specdecode.decoding.result import GenerationResult
from specdecode.serving.errors import ApiError


@dataclass(frozen=True)
class Drafting:
    """How drafting went in one reply.

    Attributes:
        steps: verify steps in which something was drafted.
        plain_steps: verify steps in which nothing was.
        drafted: draft tokens proposed.
        accepted: draft tokens kept.
        histogram: drafted steps that kept 0, 1, … draft tokens.
        switches: what the acceptance guard did meanwhile.
    """

    steps: int
    plain_steps: int
    drafted: int
    accepted: int
    histogram: tuple[int, ...]
    switches: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: Request, gamma: int, switches: tuple[str, ...] = ()) -> Drafting:
        """The counts of a request so far."""
        counts = request.histogram + [0] * (gamma + 1 - len(request.histogram))
        counts[0] -= request.undrafted
        return cls(
            steps=request.steps - request.undrafted,
            plain_steps=request.undrafted,
            drafted=request.drafted,
            accepted=request.accepted,
            histogram=tuple(counts),
            switches=switches,
        )


@dataclass(frozen=True)
class Delta:
    """What a step added to a reply, or how it ended.

    Attributes:
        token_ids: new tokens.
        logprobs: one entry a token, if asked for.
        result: with the last delta of a reply that was finished.
        drafting: likewise.
        error: with the last delta of one that was not.
    """

    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    result: GenerationResult | None = None
    drafting: Drafting | None = None
    error: ApiError | None = None


@dataclass(eq=False)
class Reply:
    """A request that waits, runs or has ended.

    Attributes:
        request: what is decoded.
        deliver: takes its deltas; called from the engine's thread.
        category: what its client calls requests of this kind.
        arrived: clock reading.
        deadline: clock reading after which it is given up; None for never.
        joined: clock reading at which it left the queue; None while it waits.
        cancelled: set by the server when nobody waits for it any more.
        told: tokens and log-probabilities delivered so far.
        counted: what the metrics have counted of its drafting.
        counted_tokens: and of its tokens.
    """

    request: Request
    deliver: Callable[[Delta], None]
    category: str
    arrived: float
    deadline: float | None = None
    joined: float | None = None
    cancelled: bool = False
    told: int = 0
    counted: Drafting = field(default_factory=lambda: Drafting(0, 0, 0, 0, ()))
    counted_tokens: int = 0

    def is_over(self, moment: float) -> bool:
        """Whether nobody waits for it any more, or it is too late."""
        return self.cancelled or (self.deadline is not None and moment > self.deadline)

    def restart(self) -> None:
        """Begin anew with the same request, asked for when it was."""
        again = self.request.restarted()
        again.started = self.request.started
        self.request = again


class Watcher(Protocol):
    """What is told about steps and replies (metrics, the acceptance guard). Engine's thread."""

    def joined(self, replies: Sequence[Reply]) -> None:
        """The prompt that these replies have in common was read."""

    def restarted(self, reply: Reply) -> None:
        """Its prompt has to be read again."""

    def stepped(self, replies: Sequence[Reply], seconds: float) -> None:
        """A step took so long; these replies took part."""

    def ended(self, reply: Reply, outcome: str) -> None:
        """A reply ended: "stop", "length", "abort" or "error". It may never have joined."""
