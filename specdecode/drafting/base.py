"""What a drafter is: something that proposes tokens and says how likely each was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from specdecode.errors import ConfigError
from specdecode.models.cache import KVCache
from specdecode.models.network import CausalNetwork
from specdecode.models.reading import PromptReader
from specdecode.verification import Coins


@dataclass(frozen=True, eq=False)
class Proposal:
    """One draft block a row.

    Attributes:
        tokens: int64 `[B, G]`; beyond a row's length anything may stand.
        probs: float32 `[B, G, V]`, the law each token was really drawn from, after temperature and
            every filter. A drafter without randomness states a one-hot row.
        lengths: real draft tokens per row, length B, 0..G.
    """

    tokens: Tensor
    probs: Tensor
    lengths: list[int]


class Sampler(Protocol):
    """Draws draft tokens; made by the decoding loop, which knows parameters and coins."""

    def __call__(self, logits: Tensor, drawn: Tensor | None, index: int) -> tuple[Tensor, Tensor]:
        """Draw the token at draft position `index` of every row.

        Args:
            logits: float32 `[B, V]` of the drafter.
            drawn: int64 `[B, index]`, what was drafted before it in this block; None for nothing.
            index: 0-based draft position.

        Returns:
            tokens int64 `[B]` and the law they were drawn from, float32 `[B, V]`.
        """
        ...

    def laws(self, logits: Tensor, drafted: Tensor | None, offset: int) -> Tensor:
        """Turn logits into laws, with the parameters and the history that the target uses, too.

        Args:
            logits: float32 `[B, T, V]`.
            drafted: int64 `[B, G]`, tokens drafted so far; None for nothing.
            offset: how many of them precede row 0; row t follows the first `offset + t`.

        Returns:
            float32 `[B, T, V]`.
        """
        ...

    def below(self, turn: int, pending: Sequence[Sequence[int]], width: int) -> Sampler:
        """A sampler for a drafter whose tokens this drafter verifies itself, with its own coins.

        Args:
            turn: 0-based count of such verifications in this block; never use one twice.
            pending: per row, the tokens this drafter has decided on before that turn.
            width: most tokens to be drafted in the turn.
        """
        ...

    def coins(self, width: int) -> Coins:
        """What decides about `width` tokens drawn here, if a drafter above verifies them.

        The coins that judge the block itself are others, and no drafter sees them. Call it once.
        """
        ...


class NoDraws:
    """The `Sampler` of a drafter that draws nothing: whoever draws all the same is refused.

    Args:
        problem: what the error says.
    """

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def __call__(self, logits: Tensor, drawn: Tensor | None, index: int) -> tuple[Tensor, Tensor]:
        """Refused, like everything here."""
        raise ConfigError(self._problem)

    def laws(self, logits: Tensor, drafted: Tensor | None, offset: int) -> Tensor:
        """Refused."""
        raise ConfigError(self._problem)

    def below(self, turn: int, pending: Sequence[Sequence[int]], width: int) -> Sampler:
        """Refused."""
        raise ConfigError(self._problem)

    def coins(self, width: int) -> Coins:
        """Refused."""
        raise ConfigError(self._problem)


class Drafter(Protocol):
    """Proposes a block after each row's kept tokens."""

    name: str

    def begin(self, batch: int, capacity: int, target_cache: KVCache) -> None:
        """Start a batch; state of an earlier batch is dropped."""
        ...

    def propose(
        self, contexts: Sequence[Sequence[int]], wanted: list[int], sample: Sampler
    ) -> Proposal:
        """Draft up to `wanted[b]` tokens after `contexts[b]`.

        The number drafted may depend on the kept tokens alone: dropping a token after looking at
        it, or at its probability, would bias the output.

        Args:
            contexts: every row's tokens so far, prompt included, the last one not yet processed by
                the target.
            wanted: most draft tokens useful per row; 0 for none.
            sample: draws tokens from logits.
        """
        ...

    def keep_rows(self, rows: list[int]) -> None:
        """Forget finished rows; `rows` are the old indices of those that go on."""
        ...

    def add_rows(self, contexts: Sequence[Sequence[int]], capacity: int) -> None:
        """Take in rows that join a running batch, behind those that are there.

        A target's cache that is shared has them already.

        Args:
            contexts: their tokens so far: the prompt and the first token of the reply.
            capacity: tokens that any row of the batch may come to have, drafts included.
        """
        ...


class ScoringDrafter(Drafter, Protocol):
    """A drafter with a network, which can verify another drafter's tokens (see `cascade`)."""

    network: CausalNetwork

    def room(self, contexts: Sequence[Sequence[int]], wanted: list[int]) -> list[int]:
        """How many of `wanted[b]` tokens after `contexts[b]` its context window takes."""
        ...

    def score(self, contexts: Sequence[Sequence[int]], drafted: Tensor) -> Tensor:
        """Rate tokens that another drafter proposed.

        Args:
            contexts: as in `propose`.
            drafted: int64 `[B, G]`, tokens after each context.

        Returns:
            float32 logits `[B, G+1, V]`, after each context and after each drafted token.
        """
        ...


@runtime_checkable
class PartialDrafter(Protocol):
    """A drafter that can leave rows out which want nothing."""

    def propose_rows(
        self,
        rows: list[int],
        contexts: Sequence[Sequence[int]],
        wanted: list[int],
        sample: Sampler,
    ) -> Proposal:
        """Draft as `Drafter.propose` would, for some rows alone.

        Args:
            rows: their places in the batch, in rising order.
            contexts: theirs alone.
            wanted: likewise.
            sample: likewise.
        """
        ...


@runtime_checkable
class ReadingDrafter(Protocol):
    """A drafter that reads the prompts of rows that join, and can do so in pieces."""

    def reader(self, prompts: Sequence[Sequence[int]]) -> PromptReader:
        """Something to read prompts with, outside the running rows."""
        ...

    def add_read_rows(self, reader: PromptReader, rows: list[int], capacity: int) -> None:
        """Take in rows whose prompts were read, as `Drafter.add_rows` would.

        Args:
            reader: of `reader`; of no use afterwards.
            rows: for each newcomer, the place of its prompt in the reader.
            capacity: see `Drafter.add_rows`.
        """
        ...


def cache_bytes(drafter: Drafter) -> int:
    """Memory that a drafter's own keys and values take; 0 for one that keeps none."""
    return int(getattr(drafter, "cache_bytes", 0))


def batches_before(drafter: Drafter) -> int:
    """How many batches came before the next one, for a drafter that remembers; 0 for others.

    Remembered replies depend on the coins they were drawn with. To decode the same prompt and seed
    with the same coins again, and a draft that depends on them, would bias the reply. So a drafter
    that remembers says how often it began, and every batch gets coins of its own.
    """
    return int(getattr(drafter, "batches_before", 0))


def empty_proposal(batch: int, vocab_size: int, device: torch.device) -> Proposal:
    """A proposal of nothing: the step becomes plain decoding."""
    return Proposal(
        tokens=torch.zeros(batch, 0, dtype=torch.int64, device=device),
        probs=torch.zeros(batch, 0, vocab_size, device=device),
        lengths=[0] * batch,
    )


def sample_block(
    first_logits: Tensor, length: int, sample: Sampler, advance: Advance
) -> tuple[Tensor, Tensor]:
    """Draw `length` tokens one after the other, feeding each back through `advance`.

    Args:
        first_logits: float32 `[B, V]` after the context.
        length: draft tokens G, at least 1.
        sample: draws a token.
        advance: runs the drafter on one more token.

    Returns:
        tokens `[B, G]` and laws `[B, G, V]`.
    """
    logits = first_logits
    drawn: list[Tensor] = []
    laws: list[Tensor] = []
    for index in range(length):
        token, law = sample(logits, torch.stack(drawn, 1) if drawn else None, index)
        drawn.append(token)
        laws.append(law)
        if index + 1 < length:
            logits = advance(token, index)
    return torch.stack(drawn, 1), torch.stack(laws, 1)


class Advance(Protocol):
    """Runs a drafter one token further."""

    def __call__(self, tokens: Tensor, index: int) -> Tensor:
        """Process draft token `index` of every row (int64 `[B]`); return logits `[B, V]`."""
        ...
