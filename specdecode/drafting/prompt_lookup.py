"""Prompt lookup: what followed the last words when they occurred before, will follow them again.

Finds the longest n-gram that ends the context and occurs earlier in it, and proposes the tokens
that came after its latest earlier occurrence. No model and no randomness: the draft law is one-hot.
(Saxena 2023, "Prompt Lookup Decoding"; the n-gram drafter of production engines.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import one_hot

from specdecode.drafting.base import Proposal, Sampler, empty_proposal
from specdecode.models.cache import KVCache


class PromptLookupDrafter:
    """Copies from the row's own prompt and output.

    Args:
        vocab_size: length V of a one-hot row.
        device: where proposals are made.
        longest: longest n-gram tried.
        shortest: shortest n-gram tried; single tokens recur too often to mean much.
    """

    name = "prompt-lookup"

    def __init__(
        self, vocab_size: int, device: torch.device, longest: int = 4, shortest: int = 2
    ) -> None:
        self._vocab_size, self._device = vocab_size, device
        self._longest, self._shortest = longest, shortest

    def begin(self, batch: int, capacity: int, target_cache: KVCache) -> None:
        """Nothing to keep between steps."""

    def propose(
        self, contexts: Sequence[Sequence[int]], wanted: list[int], sample: Sampler
    ) -> Proposal:
        """See `Drafter.propose`; rows without an earlier occurrence draft nothing."""
        del sample  # nothing is drawn
        found = [
            self._continuation(context, most)
            for context, most in zip(contexts, wanted, strict=True)
        ]
        lengths = [len(tokens) for tokens in found]
        width = max(lengths)
        if width == 0:
            return empty_proposal(len(contexts), self._vocab_size, self._device)
        padded = [tokens + [0] * (width - len(tokens)) for tokens in found]
        tokens = torch.tensor(padded, device=self._device)
        return Proposal(tokens, one_hot(tokens, self._vocab_size).float(), lengths)

    def keep_rows(self, rows: list[int]) -> None:
        """Nothing to drop."""

    def add_rows(self, contexts: Sequence[Sequence[int]], capacity: int) -> None:
        """Nothing to take in."""

    def _continuation(self, context: Sequence[int], most: int) -> list[int]:
        tokens = list(context)
        if most == 0:
            return []
        for size in range(min(self._longest, len(tokens) - 1), self._shortest - 1, -1):
            pattern = tokens[-size:]
            for start in range(len(tokens) - size - 1, -1, -1):
                if tokens[start] == pattern[0] and tokens[start : start + size] == pattern:
                    return tokens[start + size : start + size + most]
        return []
