"""Which tokens a draft can propose: those that get most of the target's probability in texts."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from specdecode.distil.texts import Conversation
from specdecode.errors import ConfigError


def frequent_tokens(texts: Iterable[Conversation], size: int | None, vocab_size: int) -> Tensor:
    """The tokens of the output head, int64 `[M]`, rising.

    Counting stored probability rather than the tokens drawn makes the tail of the list less a
    matter of chance.

    Args:
        texts: that were written.
        size: M; None for the whole vocabulary.
        vocab_size: V of the target.

    Raises:
        ConfigError: more than V.
    """
    if size is None:
        return torch.arange(vocab_size)
    if size > vocab_size:
        raise ConfigError(
            f"a head of {size} tokens, but the target has {vocab_size}: give fewer, or `full`"
        )
    mass = torch.zeros(vocab_size, dtype=torch.float64)
    for text in texts:
        mass.index_add_(0, text.top_ids.flatten().long(), text.top_probs.flatten().double())
    # Stable, so that of equal tokens the lower ids stay.
    order = mass.argsort(descending=True, stable=True)
    return order[:size].sort().values
