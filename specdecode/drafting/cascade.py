"""A cascade: a drafter whose own drafting is speculative.

The drafter in the middle would need one pass per draft token. Here a cheaper one at the bottom
proposes tokens to it, and it verifies several in one pass, by the same rules by which the target
will verify the block. Such a rule is lossless, so the block follows the middle's law exactly, as if
the middle had drawn each token itself: the middle's rows are the draft law that is stated, and the
bottom leaves no trace in it.
(Chen et al., "Cascade Speculative Drafting", arXiv 2312.11462; Spector and Re, "Accelerating LLM
Inference with Staged Speculative Decoding", arXiv 2308.04623.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdecode.drafting.base import (
    Drafter,
    Proposal,
    Sampler,
    ScoringDrafter,
    batches_before,
    cache_bytes,
    empty_proposal,
)
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.models.cache import KVCache
from specdecode.verification import VerificationRule, block_verification


class CascadeDrafter:
    """Drafts with one drafter, sped up by another.

    Args:
        name: the spec it came from.
        bottom: proposes to the middle.
        middle: whose law the block follows.
        rule: how the middle verifies: token or block verification.
        reach: most tokens the bottom proposes at a time.
    """

    def __init__(
        self,
        name: str,
        bottom: Drafter,
        middle: ScoringDrafter,
        *,
        rule: VerificationRule = block_verification,
        reach: int = 4,
    ) -> None:
        self.name, self.bottom, self.middle = name, bottom, middle
        self._rule, self._reach = rule, reach
        # A middle over the target's cache leaves there what a bottom over it needs. One with its
        # own cache does not, so that bottom reads the block's tokens itself.
        self._bottom_alone = isinstance(bottom, SelfDrafter) and not isinstance(middle, SelfDrafter)

    @property
    def cache_bytes(self) -> int:
        """Those of both (see `base.cache_bytes`)."""
        return cache_bytes(self.bottom) + cache_bytes(self.middle)

    @property
    def batches_before(self) -> int:
        """Those of the drafter that remembers, if one does (see `base.batches_before`)."""
        return max(batches_before(self.bottom), batches_before(self.middle))

    def begin(self, batch: int, capacity: int, target_cache: KVCache) -> None:
        """See `Drafter.begin`."""
        self.bottom.begin(batch, capacity, target_cache)
        self.middle.begin(batch, capacity, target_cache)

    def propose(
        self, contexts: Sequence[Sequence[int]], wanted: list[int], sample: Sampler
    ) -> Proposal:
        """See `Drafter.propose`.

        Every row gets as many tokens as it wants (and the middle's context window takes). That
        number is fixed before the first is drawn, so ending there tells nothing about the tokens.
        """
        network = self.middle.network
        wanted = self.middle.room(contexts, wanted)
        if max(wanted) == 0:
            return empty_proposal(len(contexts), network.vocab_size, network.device)
        block: list[list[int]] = [[] for _ in contexts]
        laws: list[list[Tensor]] = [[] for _ in contexts]
        turn = 0
        while any(len(have) < want for have, want in zip(block, wanted, strict=True)):
            missing = [want - len(have) for have, want in zip(block, wanted, strict=True)]
            self._take_turn(contexts, block, laws, missing, sample.below(turn, block, self._reach))
            turn += 1
        width = max(wanted)
        padding = torch.zeros(network.vocab_size, device=network.device)
        rows = [torch.stack(law + [padding] * (width - len(law))) for law in laws]
        padded = [tokens + [0] * (width - len(tokens)) for tokens in block]
        return Proposal(
            torch.tensor(padded, device=network.device), torch.stack(rows), list(wanted)
        )

    def keep_rows(self, rows: list[int]) -> None:
        """See `Drafter.keep_rows`."""
        self.bottom.keep_rows(rows)
        self.middle.keep_rows(rows)

    def add_rows(self, contexts: Sequence[Sequence[int]], capacity: int) -> None:
        """See `Drafter.add_rows`."""
        self.bottom.add_rows(contexts, capacity)
        self.middle.add_rows(contexts, capacity)

    def _take_turn(
        self,
        contexts: Sequence[Sequence[int]],
        block: list[list[int]],
        laws: list[list[Tensor]],
        missing: list[int],
        below: Sampler,
    ) -> None:
        """One verification by the middle; adds at least one token to every row that lacks some."""
        texts = [[*context, *have] for context, have in zip(contexts, block, strict=True)]
        # The middle adds a token of its own, so one less than missing is all that fits.
        most = [min(self._reach, max(0, lacking - 1)) for lacking in missing]
        proposal = self._ask_bottom(contexts, texts, most, below)
        logits = self.middle.score(texts, proposal.tokens)
        rows = below.laws(logits, proposal.tokens, 0)
        lengths = torch.tensor(proposal.lengths, device=rows.device)
        coins = below.coins(proposal.tokens.shape[1])
        outcome = self._rule(proposal.tokens, proposal.probs, rows, coins, lengths, validate=False)
        kept, following = outcome.num_accepted.tolist(), outcome.next_token.tolist()
        for row, drafted in enumerate(proposal.tokens.tolist()):
            if missing[row] > 0:
                block[row] += [*drafted[: kept[row]], following[row]]
                laws[row] += rows[row, : kept[row] + 1]

    def _ask_bottom(
        self,
        contexts: Sequence[Sequence[int]],
        texts: list[list[int]],
        most: list[int],
        below: Sampler,
    ) -> Proposal:
        if self._bottom_alone and isinstance(self.bottom, SelfDrafter):
            held = [len(context) - 1 for context in contexts]
            return self.bottom.propose_from(held, texts, most, below)
        return self.bottom.propose(texts, most, below)
