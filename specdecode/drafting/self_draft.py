"""The target drafts for itself: with quantised weights, or with its first layers only.

Such a drafter has the target's own key/value layout, so it reads the target's cache instead of
keeping one. It never has to process the prompt, it sees exact states for every kept token, and it
costs no cache memory. What it writes for its draft tokens lies in slots that the target's scoring
pass overwrites in the same step.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdecode.drafting.base import Proposal, Sampler, empty_proposal, sample_block
from specdecode.models.cache import CacheRows, KVCache
from specdecode.models.network import CausalNetwork
from specdecode.models.prefill import read_tokens, score_tokens


class SelfDrafter:
    """Drafts with a cheaper network over the target's cache.

    Args:
        name: the spec it came from, such as "self-int4" or "early-exit:6".
        network: same layer layout as the target (or its first layers).
    """

    def __init__(self, name: str, network: CausalNetwork) -> None:
        self.name = name
        self.network = network
        self._cache = KVCache(0, 0)

    def begin(self, batch: int, capacity: int, target_cache: KVCache) -> None:
        """Take the target's cache; see `Drafter.begin`."""
        del batch, capacity  # the shared cache knows both
        self._cache = target_cache

    def propose(
        self, contexts: Sequence[Sequence[int]], wanted: list[int], sample: Sampler
    ) -> Proposal:
        """See `Drafter.propose`. Rows that want fewer tokens are drafted along and cut."""
        return self.propose_from([len(c) - 1 for c in contexts], contexts, wanted, sample)

    def propose_rows(
        self,
        rows: list[int],
        contexts: Sequence[Sequence[int]],
        wanted: list[int],
        sample: Sampler,
    ) -> Proposal:
        """See `PartialDrafter`."""
        whole = self._cache
        self._cache = CacheRows(whole, rows)
        try:
            return self.propose(contexts, wanted, sample)
        finally:
            self._cache = whole

    def propose_from(
        self,
        held: list[int],
        contexts: Sequence[Sequence[int]],
        wanted: list[int],
        sample: Sampler,
    ) -> Proposal:
        """Draft where the cache holds the states of each row's first `held[b]` tokens only."""
        network, length = self.network, max(wanted)
        if length == 0:
            return empty_proposal(len(contexts), network.vocab_size, network.device)
        starts = [len(context) for context in contexts]

        def advance(tokens: Tensor, index: int) -> Tensor:
            return network.forward(tokens[:, None], [s + index for s in starts], self._cache)[:, 0]

        first = read_tokens(network, contexts, held, self._cache)
        tokens, laws = sample_block(first, length, sample, advance)
        return Proposal(tokens, laws, list(wanted))

    def room(self, contexts: Sequence[Sequence[int]], wanted: list[int]) -> list[int]:
        """See `ScoringDrafter.room`: as much as the target has."""
        del contexts
        return list(wanted)

    def score(self, contexts: Sequence[Sequence[int]], drafted: Tensor) -> Tensor:
        """See `ScoringDrafter.score`."""
        held = [len(context) - 1 for context in contexts]
        return score_tokens(self.network, contexts, held, drafted, self._cache)

    def keep_rows(self, rows: list[int]) -> None:
        """Nothing to do: the target's cache, which drops the rows, is the only state."""

    def add_rows(self, contexts: Sequence[Sequence[int]], capacity: int) -> None:
        """Nothing to do: the target has read the prompts."""
