"""What decoding needs of a network: a forward pass over a slotted cache."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from specdecode.errors import NumericalError
from specdecode.models.cache import KVCache


class CausalNetwork(Protocol):
    """A causal language model reduced to one operation."""

    device: torch.device
    vocab_size: int

    def forward(
        self,
        tokens: Tensor,
        starts: list[int],
        cache: KVCache,
        select: list[list[int]] | None = None,
    ) -> Tensor:
        """Score new tokens and store their state.

        Args:
            tokens: int64 `[B, T]`, each row's new tokens; padding at the end is harmless because a
                later call overwrites its slots.
            starts: position of each row's first new token, length B.
            cache: where state is read and written.
            select: per row, K indices in 0..T-1 whose logits are wanted; None for all T. The output
                head is a fifth of the work, and a prompt needs it for its last token only.

        Returns:
            float32 logits `[B, T, V]`, or `[B, K, V]` with `select`.
        """
        ...


def check_finite(logits: Tensor, what: str) -> Tensor:
    """Return `logits` `[B, T, V]`; raise NumericalError naming the first bad row and position."""
    finite = torch.isfinite(logits.sum(dim=-1))  # one NaN or infinity spoils its row's sum
    if not bool(finite.all()):
        row, position = (int(i) for i in torch.nonzero(~finite)[0])
        raise NumericalError(
            f"{what} produced NaN or infinite logits in batch row {row}, new token {position}: "
            "check the weights (fingerprint), or run with dtype='float32'",
            row,
        )
    return logits
