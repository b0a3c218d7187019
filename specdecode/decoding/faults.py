"""A drafter that fails costs speed, never a reply: the batch goes on without drafts.

Why the law of the output stays the target's. What a drafter does may depend on the tokens it just
drew: it may crash on one of them only. Throwing those tokens away would then select among them, and
the next token would follow another law (draw x from q, crash iff x = 1, draw anew from p: where
p = q = (1/2, 1/2) this gives token 0 with probability 3/4). So whatever was drawn until the failure
is kept as a shorter block and verified like any other. The decision to end it after token i depends
on tokens 1..i alone, all of which are judged. Token and block verification and sample-and-match are
lossless for blocks that end at such a point: what they do at a prefix makes the law right there,
whatever happens along other prefixes. A drafter that fails before it draws leaves an empty block, a
plain step. All later steps are plain, after a prefix that is settled, with coins of their own steps
that nobody has seen.

Two cases raise, because the draws can be neither kept nor dropped. Draws that are not the beginning
of one block, from a drafter that calls the sampler for something else than its next token. And a
shortened block under greedy block verification: it makes up in the next positions for what it
accepts in this block, over the block's length, which must therefore not depend on the block.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdecode.decoding.memory import is_out_of_memory
from specdecode.drafting import Drafter, Proposal, Sampler
from specdecode.drafting.base import (
    PartialDrafter,
    ReadingDrafter,
    batches_before,
    cache_bytes,
    empty_proposal,
)
from specdecode.errors import EngineError
from specdecode.models.cache import KVCache
from specdecode.models.reading import PromptReader
from specdecode.verification import Coins
from specdecode.verification.validation import real_positions

ENDS_ANYWHERE = frozenset({"token", "block", "match"})
"""Rules that are lossless for a block whose length depends on the tokens in it."""

log = logging.getLogger("specdecode.decoding")


class GuardedDrafter:
    """A drafter for one batch that never raises for the drafter's own faults.

    Args:
        drafter: the one to guard.
        verification: name of the rule that judges its blocks.
        vocab_size: length V of a law.
        device: where an empty proposal is made.
        on_failure: told the reason, once.

    Attributes:
        failure: why nothing is drafted any more; None while all is well.
    """

    def __init__(
        self,
        drafter: Drafter,
        verification: str,
        vocab_size: int,
        device: torch.device,
        on_failure: Callable[[str], None],
    ) -> None:
        self.name = drafter.name
        self.failure: str | None = None
        self._drafter, self._vocab_size, self._device = drafter, vocab_size, device
        self._verification, self._on_failure = verification, on_failure
        self._some = drafter if isinstance(drafter, PartialDrafter) else None

    @property
    def batches_before(self) -> int:
        """See `specdecode.drafting.base.batches_before`."""
        return batches_before(self._drafter)

    def begin(self, batch: int, capacity: int, target_cache: KVCache) -> None:
        """See `Drafter.begin`."""
        try:
            self._drafter.begin(batch, capacity, target_cache)
        except Exception as error:  # noqa: BLE001 - a drafter may be anyone's code
            self._fail("begin", error)

    @property
    def drafts_some(self) -> bool:
        """Whether it can draft for some rows alone (`specdecode.drafting.base.PartialDrafter`)."""
        return self._some is not None

    def propose(
        self,
        contexts: Sequence[Sequence[int]],
        wanted: list[int],
        sample: Sampler,
        rows: list[int] | None = None,
    ) -> Proposal:
        """See `Drafter.propose`; nothing after a failure, and in it what was already drawn.

        Args:
            contexts: see there.
            wanted: see there.
            sample: see there.
            rows: places in the batch of what is drafted for; None for all of it.

        Raises:
            EngineError: the drafter failed, and its draws cannot be kept (see above).
        """
        if self.failure is not None:
            return self._nothing(len(contexts))
        draws = _Draws(sample)
        try:
            if rows is None or self._some is None:
                proposal = self._drafter.propose(contexts, wanted, draws)
            else:
                proposal = self._some.propose_rows(rows, contexts, wanted, draws)
            return checked(proposal, wanted, self._vocab_size)
        except Exception as error:
            self._fail("propose", error)
            if not (draws.tokens or draws.below_drew):
                return self._nothing(len(contexts))
            if not draws.in_order(wanted):
                raise self._stuck("that are not the beginning of one block") from error
            block = draws.block(wanted)
            if block.lengths != wanted and self._verification not in ENDS_ANYWHERE:
                why = f"of an unfinished block, under verification '{self._verification}'"
                raise self._stuck(why) from error
            return block

    def keep_rows(self, rows: list[int]) -> None:
        """See `Drafter.keep_rows`."""
        if self.failure is not None:
            return
        try:
            self._drafter.keep_rows(rows)
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail("keep_rows", error)

    def add_rows(self, contexts: Sequence[Sequence[int]], capacity: int) -> None:
        """See `Drafter.add_rows`."""
        if self.failure is not None:
            return
        try:
            self._drafter.add_rows(contexts, capacity)
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail("add_rows", error)

    @property
    def cache_bytes(self) -> int:
        """See `specdecode.drafting.base.cache_bytes`."""
        return cache_bytes(self._drafter)

    def reader(self, prompts: Sequence[Sequence[int]]) -> PromptReader | None:
        """See `ReadingDrafter.reader`; None where the drafter takes rows in all at once."""
        if self.failure is not None or not isinstance(self._drafter, ReadingDrafter):
            return None
        try:
            return self._drafter.reader(prompts)
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail("reader", error)
        return None

    def read(self, reader: PromptReader, most: int | None) -> PromptReader | None:
        """Read on; None after a failure."""
        if self.failure is not None:
            return None
        try:
            reader.read(most)
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail("read", error)
            return None
        return reader

    def add_read_rows(self, reader: PromptReader, rows: list[int], capacity: int) -> None:
        """See `ReadingDrafter.add_read_rows`."""
        if self.failure is not None or not isinstance(self._drafter, ReadingDrafter):
            return
        try:
            self._drafter.add_read_rows(reader, rows, capacity)
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail("add_read_rows", error)

    def _fail(self, where: str, error: Exception) -> None:
        if is_out_of_memory(error):  # the batch is too large, which a smaller one cures
            raise error
        self.failure = f"{where}: {type(error).__name__}: {error}".rstrip(": ")
        log.debug("drafter '%s' failed", self.name, exc_info=error)
        self._on_failure(self.failure)

    def _stuck(self, why: str) -> EngineError:
        return EngineError(
            f"drafter '{self.name}' failed ({self.failure}) after draws {why}: they can be neither "
            "kept nor dropped without changing the distribution of the reply; "
            "use another draft, or verification 'block'"
        )

    def _nothing(self, batch: int) -> Proposal:
        return empty_proposal(batch, self._vocab_size, self._device)


class _Draws:
    """A sampler that remembers what it drew in this block.

    Args:
        sample: draws.
        above: of the block, if draws here are for a drafter below the one that proposes.
    """

    def __init__(self, sample: Sampler, above: _Draws | None = None) -> None:
        self._sample, self._block = sample, self if above is None else above
        self.below_drew = False
        self.tokens: list[Tensor] = []
        self._laws: list[Tensor] = []
        self._asked: list[tuple[Tensor | None, int]] = []

    def __call__(self, logits: Tensor, drawn: Tensor | None, index: int) -> tuple[Tensor, Tensor]:
        self._block.below_drew |= self._block is not self
        token, law = self._sample(logits, drawn, index)
        self._asked.append((drawn, index))
        self.tokens.append(token)
        self._laws.append(law)
        return token, law

    def laws(self, logits: Tensor, drafted: Tensor | None, offset: int) -> Tensor:
        """See `Sampler.laws`; draws nothing."""
        return self._sample.laws(logits, drafted, offset)

    def below(self, turn: int, pending: Sequence[Sequence[int]], width: int) -> Sampler:
        """See `Sampler.below`; what is drawn there is no part of the block by itself."""
        return _Draws(self._sample.below(turn, pending, width), self._block)

    def coins(self, width: int) -> Coins:
        """See `Sampler.coins`."""
        self._block.below_drew = True
        return self._sample.coins(width)

    def in_order(self, wanted: list[int]) -> bool:
        """Whether the draws are tokens 0, 1, … of one block, each after those before it."""
        if self.below_drew or len(self.tokens) > max(wanted):
            return False
        for place, (drawn, index) in enumerate(self._asked):
            before = torch.stack(self.tokens[:place], 1) if place else None
            if index != place or (before is None) != (drawn is None):
                return False
            if before is not None and drawn is not None and not torch.equal(before, drawn):
                return False
        return True

    def block(self, wanted: list[int]) -> Proposal:
        """The draws as a proposal."""
        lengths = [min(most, len(self.tokens)) for most in wanted]
        return Proposal(torch.stack(self.tokens, 1), torch.stack(self._laws, 1), lengths)


def checked(proposal: Proposal, wanted: list[int], vocab_size: int) -> Proposal:
    """Refuse a proposal that no rule could judge.

    Args:
        proposal: what a drafter returned.
        wanted: most draft tokens per row, length B.
        vocab_size: V.

    Returns:
        The proposal, with harmless tokens where it was only padded carelessly.

    Raises:
        ValueError: wrong shape or type, a length beyond what was wanted, a token outside the
            vocabulary, or a row that is no probability law.
    """
    tokens, probs, lengths = proposal.tokens, proposal.probs, proposal.lengths
    rows = len(wanted)
    if tokens.dim() != 2 or tokens.shape[0] != rows or tokens.dtype != torch.int64:
        raise ValueError(f"tokens are {tokens.dtype} {list(tokens.shape)}, not int64 [{rows}, G]")
    width = tokens.shape[1]
    if tuple(probs.shape) != (rows, width, vocab_size) or not probs.is_floating_point():
        raise ValueError(
            f"probs are {probs.dtype} {list(probs.shape)}, not float {[rows, width, vocab_size]}"
        )
    if width > max(wanted):
        raise ValueError(f"{width} draft tokens where at most {max(wanted)} were wanted")
    if len(lengths) != rows or any(
        not 0 <= length <= min(most, width) for length, most in zip(lengths, wanted, strict=False)
    ):
        raise ValueError(f"lengths {lengths} for blocks of width {width} and {wanted} wanted")
    if width == 0:
        return proposal
    real = real_positions(torch.tensor(lengths, device=tokens.device), width)
    outside = (tokens < 0) | (tokens >= vocab_size)
    no_law = ~((probs.sum(-1) - 1).abs() < 1e-3)  # written so that NaN is wrong, too
    # One reading of the device for both; which of them it was is asked only if something is wrong.
    if not bool((outside | (no_law & real)).any()):
        return proposal
    if bool((outside & real).any()):
        raise ValueError(f"a draft token lies outside the vocabulary 0..{vocab_size - 1}")
    if bool((no_law & real).any()):
        raise ValueError("a draft law does not sum to 1 (NaN, or not normalised)")
    return Proposal(tokens.masked_fill(outside, 0), probs, lengths)
