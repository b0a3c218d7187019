"""Prompts that are read piece by piece, so that others need not wait for the whole of a long one.

They are read in a cache of their own: beside running rows, every one of which would be padded to
the length of a prompt, they would cost many times as much.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdecode.models.cache import KVCache
from specdecode.models.network import CausalNetwork
from specdecode.models.prefill import PREFILL_CHUNK, read_tokens


class PromptReader:
    """Prompts on their way into a cache.

    Args:
        network: reads them.
        prompts: token ids; at least one, none empty.

    Attributes:
        network: see above.
        cache: what was read so far, one row a prompt.
        logits: float32 `[P, V]` after what was read of each prompt; None before the first piece.
    """

    def __init__(self, network: CausalNetwork, prompts: Sequence[Sequence[int]]) -> None:
        self.network, self._prompts = network, [list(prompt) for prompt in prompts]
        self._longest = max(map(len, self._prompts))
        padding = PREFILL_CHUNK if len(self._prompts) > 1 else 0
        self.cache = KVCache(len(self._prompts), self._longest + padding)
        self.logits: Tensor | None = None
        self._to = 0  # tokens that were read of every prompt that has as many

    @property
    def unread(self) -> int:
        """Tokens of the longest prompt that are still to be read."""
        return self._longest - self._to

    @property
    def texts(self) -> list[list[int]]:
        """What was read of each prompt."""
        return [prompt[: self._to] for prompt in self._prompts]

    def read(self, most: int | None = None) -> None:
        """Read on, at most so many tokens of each prompt. If it raises, nothing has changed."""
        to = self._longest if most is None else min(self._longest, self._to + most)
        if to == self._to:
            return
        # A prompt that is through repeats its last token until the longest one is, too.
        starts = [min(self._to, len(prompt) - 1) for prompt in self._prompts]
        texts = [prompt[:to] for prompt in self._prompts]
        self.logits = read_tokens(self.network, texts, starts, self.cache)
        self._to = to
