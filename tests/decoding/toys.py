"""Networks small enough that their output law can be written down, with state in the cache."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from specdecode.models import KVCache

V = 3


class TableNetwork:
    """Logits from a table indexed by (token before, token, position mod 2).

    The token before is read back from the cache, so a slot that was rolled back wrongly, written
    late or seen too early changes the law.

    Args:
        seed: equal seeds give equal tables.
        sharpness: the larger, the further laws are from uniform.
        vocabulary: number of tokens.
        dtype: of the logits; float64 ones give laws exact to 1e-15.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        seed: int,
        sharpness: float = 1.5,
        vocabulary: int = V,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.vocab_size = vocabulary
        rng = np.random.default_rng(seed)
        shape = (vocabulary, vocabulary, 2, vocabulary)
        self.table = torch.from_numpy(rng.normal(scale=sharpness, size=shape)).to(dtype)

    def forward(
        self,
        tokens: Tensor,
        starts: list[int],
        cache: KVCache,
        select: list[list[int]] | None = None,
    ) -> Tensor:
        batch, width = tokens.shape
        cache.aim(starts, width, self.device)
        stored, _ = cache.write(0, tokens[:, :, None, None].float(), tokens[:, :, None, None])
        history = stored[:, :, 0, 0].long()
        positions = torch.tensor(starts)[:, None] + torch.arange(width)
        before = history.gather(1, (positions - 1).clamp(min=0))
        logits = self.table[before, tokens, positions % 2]
        if select is not None:
            logits = logits[torch.arange(batch)[:, None], torch.tensor(select)]
        return logits

    def law(self, tokens: list[int]) -> np.ndarray:
        """Exact law after `tokens`, float64 `[V]`."""
        return self.logits(tokens).double().softmax(-1).numpy()

    def logits(self, tokens: list[int]) -> Tensor:
        """Logits `[V]` after `tokens`, looked up without a cache."""
        position = len(tokens) - 1
        return self.table[tokens[max(0, position - 1)], tokens[-1], position % 2]


@dataclass
class ToyModel:
    """What the engine asks of a loaded model."""

    network: TableNetwork
    tokenizer: None = None
    vocab_size: int = V
    max_context: int = 64
    eos_token_ids: frozenset[int] = field(default_factory=frozenset)
    device: torch.device = TableNetwork.device


def joint_law(network: TableNetwork, prompt: list[int], length: int) -> dict[tuple, float]:
    """Probability of every continuation of `length` tokens."""
    laws = {(): 1.0}
    for _ in range(length):
        laws = {
            (*reply, token): probability * float(p)
            for reply, probability in laws.items()
            for token, p in enumerate(network.law([*prompt, *reply]))
        }
    return laws
