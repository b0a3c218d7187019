"""Requests that join a running batch, and requests that leave it before their reply has ended.

Why neither changes the law of anybody's reply. A row's coins are keyed by its own seed, prompt and
count of steps (`Request.step`), its laws by its own tokens, its draft by its own context. What a
neighbour does, and whether there is one, enters floating-point rounding and, with an adaptive
draft length, the costs by which a length is chosen before anything is drafted
(`specdecode.drafting.length`). A request that leaves takes its coins along; they decide nothing
about those that stay, so even a leave that depends on what was drawn selects nothing. Nor does it
matter into how many pieces a prompt is cut: nothing is drawn before all of it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from specdecode.decoding.clock import now
from specdecode.decoding.faults import GuardedDrafter
from specdecode.decoding.loop import Batch, begin_replies, drop, drop_finished
from specdecode.decoding.request import Request
from specdecode.decoding.sharing import SharedPrompts
from specdecode.models.network import CausalNetwork
from specdecode.models.reading import PromptReader

Added = list[tuple[Request, list[int]]]
"""Tokens that were added to replies."""


class Joining:
    """Requests whose prompts are being read, piece by piece, and which then join a batch.

    The target reads them, and beside it, piece for piece, a draft that has to read them itself.

    Args:
        network: the target.
        newcomers: not yet begun; at least one. Equal prompts are read once.
        drafter: of the batch that they will enter; None if it has none, or they begin one.
        draft_reads: whether the draft reads them now; if not, it does when one of them drafts.

    Attributes:
        requests: those that have not left.
        draft_s: seconds that the draft has read.
    """

    def __init__(
        self,
        network: CausalNetwork,
        newcomers: Sequence[Request],
        drafter: GuardedDrafter | None = None,
        *,
        draft_reads: bool = True,
    ) -> None:
        self.requests = list(newcomers)
        shared = SharedPrompts.of([r.prompt for r in newcomers])
        self._row = dict(zip(newcomers, shared.source, strict=True))
        self._target, self._drafter = PromptReader(network, shared.prompts), drafter
        self._draft = None if drafter is None else drafter.reader(shared.prompts)
        self._draft_reads, self.draft_s = draft_reads, 0.0

    @property
    def unread(self) -> int:
        """Tokens of the longest prompt that are still to be read."""
        return self._target.unread

    @property
    def tokens_read(self) -> int:
        """Tokens of all prompts that were read."""
        return sum(map(len, self._target.texts))

    @property
    def cache_bytes(self) -> int:
        """Memory of what the target has read."""
        return self._target.cache.bytes_held

    @property
    def draft_cache_bytes(self) -> int:
        """Memory of what the draft has read."""
        return 0 if self._draft is None else self._draft.cache.bytes_held

    def read(self, most: int | None = None) -> None:
        """Read on, at most so many tokens of each prompt. If it raises, give the requests up."""
        self._target.read(most)
        if self._drafter is not None and self._draft is not None and self._draft_reads:
            begun = now(self._target.network.device)
            self._draft = self._drafter.read(self._draft, most)
            self.draft_s += now(self._target.network.device) - begun

    def leave(self, requests: Sequence[Request]) -> None:
        """Let requests go in the middle of their prompts; others are passed over."""
        self.requests = [r for r in self.requests if r not in requests]

    def begin(self, make: Callable[[list[Request]], Batch]) -> tuple[Batch, Added]:
        """Draw the first tokens, and decode in a new batch from here on.

        Args:
            make: makes a batch of requests.

        Returns:
            The batch, and each request's first token. Those that end with it are not in it.
        """
        batch = make(self.requests)
        logits = self._states()
        batch.cache.keep_rows([])
        batch.cache.add_rows(self._target.cache, batch.cache.capacity)
        added = begin_replies(batch, batch.requests, logits)
        drop_finished(batch)
        return batch, added

    def enter(self, batch: Batch) -> Added:
        """Draw the first tokens, and take the requests into a batch.

        If it raises, the batch is what it was; the newcomers may have a first token, so begin again
        with `Request.restarted`.

        Args:
            batch: between two steps, with a request in it.

        Returns:
            Each newcomer's first token. Those that end with it are not in the batch.
        """
        batch.admit(self.requests)
        added = begin_replies(batch, self.requests, self._states())
        going_on = [row for row, r in enumerate(self.requests) if r.finish_reason is None]
        if going_on:
            if len(going_on) < len(self.requests):
                self._target.cache.keep_rows(going_on)
            self._take_in(batch, [self.requests[row] for row in going_on])
        failure = None if batch.drafter is None else batch.drafter.failure
        for request in self.requests:
            if request.finish_reason is not None:
                request.draft_failure = failure
        return added

    def _states(self) -> Tensor:
        """Give every request a row of the cache; logits `[B, 1, V]` after its prompt."""
        logits = self._target.logits
        if logits is None or self.unread:
            raise ValueError("the prompts have not been read to their ends")
        rows = [self._row[request] for request in self.requests]
        if rows != list(range(len(logits))):
            self._target.cache.keep_rows(rows)
        return logits[rows][:, None]

    def _take_in(self, batch: Batch, newcomers: list[Request]) -> None:
        capacity = max(len(r.prompt) + r.limit for r in newcomers) + batch.gamma + 1
        running = len(batch.requests)
        try:
            if batch.drafter is not None:
                most = max(capacity, batch.cache.capacity)
                if self._draft is None:
                    batch.drafter.add_rows([r.tokens for r in newcomers], most)
                else:
                    rows = [self._row[r] for r in newcomers]
                    batch.drafter.add_read_rows(self._draft, rows, most)
            batch.cache.add_rows(self._target.cache, capacity)
        except BaseException:
            if batch.drafter is not None:  # a drafter of several parts may have gone half the way
                batch.drafter.keep_rows(list(range(running)))
            raise
        batch.lengths.add(newcomers)
        batch.requests = batch.requests + newcomers
        for request in newcomers:
            request.seconds = batch.seconds.copy()
        for request in batch.requests:
            request.batch_size = max(request.batch_size, len(batch.requests))
        batch.wants_logits = any(r.params.logprobs for r in batch.requests)


def leave(batch: Batch, leaving: Sequence[Request]) -> None:
    """Let requests go between two steps, wherever they are in their replies.

    Args:
        batch: between two steps.
        leaving: requests in it; others are passed over.
    """
    drop(batch, [r for r in leaving if r in batch.requests])
