"""A batch that goes on while requests come and go: what continuous batching is made of.

Whoever runs it calls `join`, `step` and `leave` in any order, from one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from specdecode.decoding.clock import now
from specdecode.decoding.joining import join, leave
from specdecode.decoding.loop import Batch, advance, first_tokens, score_block, verify_block
from specdecode.decoding.request import Request
from specdecode.drafting.base import empty_proposal
from specdecode.errors import ConfigError
from specdecode.verification import Coins

Added = list[tuple[Request, list[int]]]
"""Tokens that were added to replies."""


class RunningBatch:
    """Requests decoded together, each from when it joins until it ends or leaves.

    Args:
        slots: most requests in it at a time.
        begin: makes a batch of requests; whenever the one before has become empty.
        still_ours: whether a batch still has the drafter it began with.

    Attributes:
        staged_s: seconds that the last step spent in its stages.
    """

    def __init__(
        self,
        slots: int,
        begin: Callable[[list[Request]], Batch],
        still_ours: Callable[[Batch], bool],
    ) -> None:
        if slots < 1:
            raise ConfigError(f"slots={slots}: give room for at least one request")
        self.slots = slots
        self._begin, self._still_ours = begin, still_ours
        self._batch: Batch | None = None
        self.staged_s = 0.0

    @property
    def requests(self) -> Sequence[Request]:
        """Those that are in it and have not ended."""
        return () if self._batch is None else tuple(self._batch.requests)

    @property
    def free(self) -> int:
        """How many more have room."""
        return self.slots - len(self.requests)

    @property
    def draft_failure(self) -> str | None:
        """Why nothing is drafted until it has become empty; None if all is well."""
        drafter = None if self._batch is None else self._batch.drafter
        return None if drafter is None else drafter.failure

    def join(self, requests: Sequence[Request]) -> Added:
        """Read the prompts of requests, and decode them with the others from the next step on.

        Args:
            requests: not yet begun. Those of one prompt share its pass if they join together.

        Returns:
            Each one's first token. A request that ends with it has a finish reason.

        Raises:
            ConfigError: no room, or another call took over the drafter.
            NumericalError, OutOfMemoryError and others: none of them has joined, and the rest is as
                it was; try them one by one, each made new by `Request.restarted`.
        """
        if len(requests) > self.free:
            raise ConfigError(f"{len(requests)} requests join, but only {self.free} have room")
        if not requests:
            return []
        if not self.requests:
            batch = self._begin(list(requests))
            added = first_tokens(batch)
            self._batch = batch
            return added
        return join(self._own(), list(requests))

    def step(self) -> Added:
        """One step of every request; nothing if there is none.

        If it raises, nobody's reply has changed, and another call tries the same step again:
        perhaps without the request that was at fault.

        Returns:
            The tokens it added to each. Those that ended have a finish reason and are gone.
        """
        if not self.requests:
            return []
        batch = self._own()
        before = batch.seconds.copy()
        added = advance(batch)
        spent = batch.seconds.since(before)
        self.staged_s = spent.draft + spent.verify
        return added

    def time_plain_step(self) -> float:
        """Seconds that the stages of a step take without a draft, tried out on the present rows.

        Nothing comes of it: no coin is drawn, and what it writes are states that the next step
        writes again. To be set against `staged_s`.
        """
        batch = self._own()
        rows, network = len(batch.requests), batch.network
        begun = now(network.device)
        proposal = empty_proposal(rows, network.vocab_size, network.device)
        laws = score_block(batch, proposal)
        half = torch.full((rows,), 0.5, dtype=torch.float64, device=network.device)
        coins = Coins(torch.zeros(rows, 0, dtype=torch.float64, device=network.device), half)
        verify_block(batch, proposal, laws, coins)
        return now(network.device) - begun

    def leave(self, requests: Sequence[Request]) -> None:
        """Let requests go, wherever they are; those that are not in it are passed over."""
        if self._batch is not None:
            leave(self._batch, list(requests))

    def _own(self) -> Batch:
        if self._batch is None:
            raise ConfigError("the batch has not begun: let requests join first")
        if not self._still_ours(self._batch):
            raise taken_over()
        return self._batch


def taken_over() -> ConfigError:
    """The error for going on with a batch whose drafter works for another one."""
    return ConfigError(
        "another call of this engine began before this one had ended, and took over the draft: "
        "read a stream to its end first, or load an engine for each (they can share one target)"
    )
