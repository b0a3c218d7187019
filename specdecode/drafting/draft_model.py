"""A separate, smaller model with the target's tokenizer drafts, and keeps its own cache."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdecode.drafting.base import Proposal, Sampler, empty_proposal, sample_block
from specdecode.models.cache import CacheRows, KVCache
from specdecode.models.network import CausalNetwork
from specdecode.models.prefill import PREFILL_CHUNK, read_tokens, score_tokens
from specdecode.models.reading import PromptReader


class ModelDrafter:
    """Drafts with an independent network.

    Args:
        name: the spec it came from.
        network: the draft model's forward pass; its vocabulary is the target's.
        max_context: positions the draft model was made for. A row that outgrows it is decoded
            plainly from there on.
    """

    def __init__(self, name: str, network: CausalNetwork, max_context: int) -> None:
        self.name = name
        self.network = network
        self._max_context = max_context
        self._cache = KVCache(0, 0)
        self._processed: list[list[int]] = []  # per row, the tokens whose state the cache holds

    def begin(self, batch: int, capacity: int, target_cache: KVCache) -> None:
        """Start with an empty cache; see `Drafter.begin`."""
        del target_cache
        # Rows of unequal length are padded to the longest piece of a chunk while they catch up.
        self._cache = KVCache(batch, capacity + (PREFILL_CHUNK if batch > 1 else 0))
        self._processed = [[] for _ in range(batch)]

    def propose(
        self, contexts: Sequence[Sequence[int]], wanted: list[int], sample: Sampler
    ) -> Proposal:
        """See `Drafter.propose`."""
        network = self.network
        fits = self.room(contexts, wanted)
        length = max(fits)
        if length == 0:
            return empty_proposal(len(contexts), network.vocab_size, network.device)
        usable = self._usable(contexts)
        logits = read_tokens(network, usable, self._held(usable), self._cache)
        starts = [len(tokens) for tokens in usable]

        def advance(tokens: Tensor, index: int) -> Tensor:
            return network.forward(tokens[:, None], [s + index for s in starts], self._cache)[:, 0]

        tokens, laws = sample_block(logits, length, sample, advance)
        drafted = tokens[:, :-1].tolist()
        self._processed = [u + d for u, d in zip(usable, drafted, strict=True)]
        return Proposal(tokens, laws, fits)

    def propose_rows(
        self,
        rows: list[int],
        contexts: Sequence[Sequence[int]],
        wanted: list[int],
        sample: Sampler,
    ) -> Proposal:
        """See `PartialDrafter`. Rows that are left out catch up when they are not."""
        whole, processed = self._cache, self._processed
        self._cache, self._processed = CacheRows(whole, rows), [processed[row] for row in rows]
        try:
            return self.propose(contexts, wanted, sample)
        finally:
            for row, tokens in zip(rows, self._processed, strict=True):
                processed[row] = tokens
            self._cache, self._processed = whole, processed

    def room(self, contexts: Sequence[Sequence[int]], wanted: list[int]) -> list[int]:
        """See `ScoringDrafter.room`."""
        return [
            min(w, max(0, self._max_context - len(c)))
            for w, c in zip(wanted, contexts, strict=True)
        ]

    def score(self, contexts: Sequence[Sequence[int]], drafted: Tensor) -> Tensor:
        """See `ScoringDrafter.score`."""
        usable = self._usable(contexts)
        logits = score_tokens(self.network, usable, self._held(usable), drafted, self._cache)
        self._processed = [u + d for u, d in zip(usable, drafted.tolist(), strict=True)]
        return logits

    def keep_rows(self, rows: list[int]) -> None:
        """See `Drafter.keep_rows`."""
        self._cache.keep_rows(rows)
        self._processed = [self._processed[row] for row in rows]

    def add_rows(self, contexts: Sequence[Sequence[int]], capacity: int) -> None:
        """See `Drafter.add_rows`.

        They are read here, alone (see `models.reading`).
        """
        reader = self.reader(contexts)
        reader.read()
        self.add_read_rows(reader, list(range(len(contexts))), capacity)

    def reader(self, prompts: Sequence[Sequence[int]]) -> PromptReader:
        """See `ReadingDrafter.reader`."""
        return PromptReader(self.network, self._usable(prompts))

    def add_read_rows(self, reader: PromptReader, rows: list[int], capacity: int) -> None:
        """See `ReadingDrafter.add_read_rows`."""
        texts = reader.texts
        reader.cache.keep_rows(rows)
        self._cache.add_rows(reader.cache, capacity + PREFILL_CHUNK)
        self._processed += [texts[row] for row in rows]

    @property
    def cache_bytes(self) -> int:
        """See `specdecode.drafting.base.cache_bytes`."""
        return self._cache.bytes_held

    def _usable(self, contexts: Sequence[Sequence[int]]) -> list[list[int]]:
        """What is read of each context.

        A row outside the draft's context window still occupies its place in the batch. It is fed
        its first token only, and its draft length is 0.
        """
        return [list(c if len(c) <= self._max_context else c[:1]) for c in contexts]

    def _held(self, contexts: list[list[int]]) -> list[int]:
        """How many first tokens of each context the cache holds; the last is always read again.

        After a fully accepted block the cache lacks the last draft token, after a rejection it
        holds states of tokens that were not kept: both are found by comparing tokens.
        """
        return [
            min(_common_prefix(done, context), len(context) - 1)
            for done, context in zip(self._processed, contexts, strict=True)
        ]


def _common_prefix(done: list[int], context: list[int]) -> int:
    """Length of the shared beginning; the two differ, if at all, within the last draft block."""
    shared = min(len(done), len(context))
    if done[:shared] == context[:shared]:
        return shared
    return next(i for i in range(shared) if done[i] != context[i])
