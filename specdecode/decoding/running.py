"""A batch that goes on while requests come and go: what continuous batching is made of.

Whoever runs it calls `start`, `read`, `step` and `leave` in any order, from one thread. `join` is
`start` and `read` in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from specdecode.decoding.clock import now
from specdecode.decoding.joining import Added, Joining, leave
from specdecode.decoding.loop import Batch, advance, score_block, verify_block
from specdecode.decoding.request import Request
from specdecode.drafting.base import empty_proposal
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel
from specdecode.verification import Coins


class RunningBatch:
    """Requests decoded together, each from when it joins until it ends or leaves.

    Args:
        target: what decodes.
        slots: most requests in it at a time.
        begin: makes a batch of requests; whenever the one before has become empty.
        still_ours: whether a batch still has the drafter it began with.

    Attributes:
        staged_s: seconds that the last step spent in its stages.
        draft_read_s: seconds that the draft has read prompts of newcomers, all of them together.
    """

    def __init__(
        self,
        target: LoadedModel,
        slots: int,
        begin: Callable[[list[Request]], Batch],
        still_ours: Callable[[Batch], bool],
    ) -> None:
        if slots < 1:
            raise ConfigError(f"slots={slots}: give room for at least one request")
        self.slots = slots
        self._target, self._begin, self._still_ours = target, begin, still_ours
        self._batch: Batch | None = None
        self._joining: Joining | None = None
        self.staged_s = self.draft_read_s = 0.0

    @property
    def requests(self) -> Sequence[Request]:
        """Those that are decoded and have not ended."""
        return () if self._batch is None else tuple(self._batch.requests)

    @property
    def reading(self) -> Sequence[Request]:
        """Those whose prompt is being read."""
        return () if self._joining is None else tuple(self._joining.requests)

    @property
    def unread(self) -> int:
        """Prompt tokens that `read` has to read until they join."""
        return 0 if self._joining is None else self._joining.unread

    @property
    def free(self) -> int:
        """How many more have room."""
        return self.slots - len(self.requests) - len(self.reading)

    @property
    def draft_failure(self) -> str | None:
        """Why nothing is drafted until it has become empty; None if all is well."""
        drafter = None if self._batch is None else self._batch.drafter
        return None if drafter is None else drafter.failure

    @property
    def cache_tokens(self) -> int:
        """Tokens of running requests and newcomers whose keys and values are kept."""
        read = 0 if self._joining is None else self._joining.tokens_read
        return sum(request.length for request in self.requests) + read

    @property
    def cache_bytes(self) -> int:
        """Memory that the target's keys and values take, of running requests and of newcomers."""
        running = 0 if self._batch is None else self._batch.cache.bytes_held
        return running + (0 if self._joining is None else self._joining.cache_bytes)

    @property
    def draft_cache_bytes(self) -> int:
        """Likewise of a draft that keeps its own."""
        drafter = None if self._batch is None else self._batch.drafter
        running = 0 if drafter is None else drafter.cache_bytes
        return running + (0 if self._joining is None else self._joining.draft_cache_bytes)

    def join(self, requests: Sequence[Request]) -> Added:
        """Read the prompts of requests, and decode them with the others from the next step on.

        Args:
            requests: see `start`.

        Returns:
            Each one's first token. A request that ends with it has a finish reason.

        Raises:
            ConfigError and others: see `start` and `read`.
        """
        self.start(requests)
        return self.read()

    def start(self, requests: Sequence[Request], *, draft_reads: bool = True) -> None:
        """Take requests that `read` is to read.

        Args:
            requests: not yet begun. Those of one prompt share its pass.
            draft_reads: whether a draft that has to read prompts itself reads theirs beside the
                target. If not, it does when one of them drafts: less, where none of them may.

        Raises:
            ConfigError: no room, or others are being read.
        """
        if len(requests) > self.free:
            raise ConfigError(f"{len(requests)} requests join, but only {self.free} have room")
        if self.reading:
            raise ConfigError("other requests are being read: read them to their ends first")
        if requests:
            drafter = self._batch.drafter if self._batch is not None and self.requests else None
            self._joining = Joining(
                self._target.network, requests, drafter, draft_reads=draft_reads
            )

    def read(self, most: int | None = None) -> Added:
        """Read on in the prompts of newcomers; at their ends they join.

        Args:
            most: tokens of each prompt; None for all of them.

        Returns:
            The first token of each one that joined: of all of them, or of none yet.

        Raises:
            ConfigError: another call took over the drafter.
            NumericalError, OutOfMemoryError and others: none of them has joined or will, and the
                rest is as it was; try them one by one, each made new by `Request.restarted`.
        """
        if self._joining is None:
            return []
        try:
            before = self._joining.draft_s
            self._joining.read(most)
            self.draft_read_s += self._joining.draft_s - before
            if self._joining.unread:
                return []
            if self.requests:
                added = self._joining.enter(self._own())
            else:
                self._batch = None  # its cache makes room
                self._batch, added = self._joining.begin(self._begin)
        except BaseException:
            self._joining = None
            raise
        self._joining = None
        return added

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
        if self._joining is not None:
            self._joining.leave(requests)
            if not self._joining.requests:
                self._joining = None
        if self._batch is not None:
            leave(self._batch, requests)

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
