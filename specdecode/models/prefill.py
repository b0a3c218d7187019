"""Read texts into a cache in chunks, which bounds the memory of masks and activations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdecode.models.cache import KVCache
from specdecode.models.network import CausalNetwork

# Unequal rows are padded to a chunk at most, so their cache needs as many slots on top.
PREFILL_CHUNK = 512


def read_tokens(
    network: CausalNetwork, texts: Sequence[Sequence[int]], starts: Sequence[int], cache: KVCache
) -> Tensor:
    """Process what the cache lacks of each row's text.

    Args:
        network: reads them.
        texts: token ids of each row, none empty, length B.
        starts: how many first tokens of each row the cache holds; fewer than there are.
        cache: where state is read and written.

    Returns:
        float32 logits `[B, V]` after each row's last token.
    """
    starts = list(starts)
    final: list[Tensor | None] = [None] * len(texts)
    while any(logits is None for logits in final):
        pieces = [t[s : s + PREFILL_CHUNK] for t, s in zip(texts, starts, strict=True)]
        ends = [[len(piece) - 1] for piece in pieces]
        logits = network.forward(_padded(pieces, network.device), starts, cache, select=ends)
        for row, piece in enumerate(pieces):
            reached = starts[row] + len(piece)
            if reached == len(texts[row]) and final[row] is None:
                final[row] = logits[row, 0]
            # A row that is through repeats its last token until the longest row is, too.
            starts[row] = min(reached, len(texts[row]) - 1)
    return torch.stack([logits for logits in final if logits is not None])


def score_tokens(
    network: CausalNetwork,
    texts: Sequence[Sequence[int]],
    starts: Sequence[int],
    drafted: Tensor,
    cache: KVCache,
) -> Tensor:
    """Process what the cache lacks of each row's text, and draft tokens after it, in one pass.

    Args:
        network: reads them.
        texts: see `read_tokens`.
        starts: see `read_tokens`.
        drafted: int64 `[B, G]`.
        cache: where state is read and written.

    Returns:
        float32 logits `[B, G+1, V]`: after each row's text, and after each of its draft tokens.
    """
    if max(len(t) - s for t, s in zip(texts, starts, strict=True)) > PREFILL_CHUNK:
        read_tokens(network, texts, starts, cache)
        starts = [len(t) - 1 for t in texts]
    behind = [list(t[s:]) for t, s in zip(texts, starts, strict=True)]
    pieces = [text + draft for text, draft in zip(behind, drafted.tolist(), strict=True)]
    wanted = [[len(text) - 1 + i for i in range(drafted.shape[1] + 1)] for text in behind]
    return network.forward(_padded(pieces, network.device), list(starts), cache, select=wanted)


def _padded(pieces: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    width = max(len(piece) for piece in pieces)
    return torch.tensor([[*piece, *[0] * (width - len(piece))] for piece in pieces], device=device)
