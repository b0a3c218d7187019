"""Teacher forcing: a network's logits for tokens that were emitted elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from specdecode.models import KVCache, LoadedModel
from specdecode.models.network import CausalNetwork

Pair = tuple[Sequence[int], Sequence[int]]


def teacher_forced(
    model: LoadedModel | CausalNetwork, pairs: Sequence[Pair], *, batch_tokens: int = 2048
) -> Iterator[tuple[int, Tensor]]:
    """Score replies in padded batches.

    Args:
        model: a loaded model, or one of its networks.
        pairs: (prompt token ids, reply token ids); neither may be empty.
        batch_tokens: most tokens in one pass, padding included (one pair at the least).

    Yields:
        (index of the pair, float32 logits `[len(reply), V]`), in order; row t is what the model
        said before reply token t.
    """
    network = model.network if isinstance(model, LoadedModel) else model
    group: list[int] = []
    for index, (prompt, reply) in enumerate(pairs):
        width = max(_width(pairs[i]) for i in [*group, index])
        if group and width * (len(group) + 1) > batch_tokens:
            yield from _score(network, pairs, group)
            group = []
        group.append(index)
        del prompt, reply
    if group:
        yield from _score(network, pairs, group)


def stepwise(model: LoadedModel | CausalNetwork, pair: Pair) -> Tensor:
    """Score a reply one token at a time, the shape of plain decoding.

    Args:
        model: a loaded model, or one of its networks.
        pair: (prompt token ids, reply token ids).

    Returns:
        float32 logits `[len(reply), V]`.
    """
    network = model.network if isinstance(model, LoadedModel) else model
    prompt, reply = list(pair[0]), list(pair[1])
    cache = KVCache(1, len(prompt) + len(reply))
    rows = [network.forward(_ids(network, prompt), [0], cache, select=[[len(prompt) - 1]])[0]]
    for offset, token in enumerate(reply[:-1]):
        rows.append(network.forward(_ids(network, [token]), [len(prompt) + offset], cache)[0])
    return torch.cat(rows)


def _score(
    network: CausalNetwork, pairs: Sequence[Pair], group: list[int]
) -> Iterator[tuple[int, Tensor]]:
    sequences = [[*pairs[i][0], *pairs[i][1][:-1]] for i in group]
    width = max(len(s) for s in sequences)
    tokens = torch.tensor([s + [0] * (width - len(s)) for s in sequences], device=network.device)
    # Only the rows that precede a reply token go through the output head.
    longest = max(len(pairs[i][1]) for i in group)
    before = [[min(len(pairs[i][0]) - 1 + t, width - 1) for t in range(longest)] for i in group]
    cache = KVCache(len(group), width)
    logits = network.forward(tokens, [0] * len(group), cache, select=before)
    for row, index in enumerate(group):
        yield index, logits[row, : len(pairs[index][1])]


def _width(pair: Pair) -> int:
    return len(pair[0]) + len(pair[1]) - 1


def _ids(network: CausalNetwork, tokens: list[int]) -> Tensor:
    return torch.tensor([tokens], device=network.device)
