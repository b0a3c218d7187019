"""How long a pass of a network takes by itself."""

from __future__ import annotations

import statistics

import torch

from specdecode.decoding.clock import now
from specdecode.models import KVCache
from specdecode.models.network import CausalNetwork

_TOKEN = 7  # any: a pass takes as long whatever it reads


def pass_seconds(
    network: CausalNetwork, *, batch: int, width: int, depth: int, repeats: int
) -> float:
    """Median seconds of a pass over `width` tokens a row, `depth` tokens into the text."""
    device = network.device
    cache = KVCache(batch, depth + width)
    context = torch.full((batch, depth), _TOKEN, device=device)
    network.forward(context, [0] * batch, cache, select=[[0]] * batch)
    tokens, starts = torch.full((batch, width), _TOKEN, device=device), [depth] * batch
    times = []
    for _ in range(repeats):
        started = now(device)
        network.forward(tokens, starts, cache)
        times.append(now(device) - started)
    return statistics.median(times)
