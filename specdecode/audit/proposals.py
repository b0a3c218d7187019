"""The draft law of a drafter without a network, read off what it proposes.

Prompt lookup proposes one token with certainty, so a verifier that accepts too much leans towards
that token. After any prefix the proposal is fixed before the next token is known, so betting on it
is fair whether or not a block really began there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from specdecode.audit.scorer import Pair
from specdecode.drafting import Drafter
from specdecode.drafting.base import NoDraws

# Positions whose one-hot rows are held at a time by the drafter.
_CHUNK = 64

_WITHOUT_COINS = NoDraws("a drafter that draws tokens at random cannot be audited by its proposals")


class ProposalScorer:
    """Log laws of what a drafter would propose after every prefix of a reply.

    Args:
        drafter: one whose proposals depend on the context alone and need no coins.
        vocab_size: of the target.
    """

    def __init__(self, drafter: Drafter, vocab_size: int) -> None:
        self._drafter, self._vocab_size = drafter, vocab_size

    def score(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
        """Score replies like `TeacherForcing.score`.

        Yields:
            (index of the pair, float32 `[len(reply), V]`): log of the proposal's law, so 0 for the
            token of a one-hot proposal; -infinity everywhere where nothing is proposed.
        """
        for index, (prompt, reply) in enumerate(pairs):
            prefixes = [prompt + reply[:t] for t in range(len(reply))]
            starts = range(0, len(prefixes), _CHUNK)
            yield index, torch.cat([self._rows(prefixes[s : s + _CHUNK]) for s in starts])

    def one_by_one(self, pair: Pair) -> Tensor:
        """See `Scorer.draft_one_by_one`; nothing is rounded, so it makes no difference."""
        return next(self.score([pair]))[1]

    def _rows(self, contexts: list[list[int]]) -> Tensor:
        proposal = self._drafter.propose(contexts, [1] * len(contexts), _WITHOUT_COINS)
        rows = torch.full(
            (len(contexts), self._vocab_size), -math.inf, device=proposal.probs.device
        )
        at = [row for row, length in enumerate(proposal.lengths) if length]
        if at:
            rows[at] = proposal.probs[at, 0].log()
        return rows
