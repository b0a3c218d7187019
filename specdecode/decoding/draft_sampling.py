"""Draws a block's draft tokens, at any depth of drafters that verify each other.

The drafter that the target verifies stands at the top. A cascade drafts with another drafter below
it: what happens there is decided by coins of its own, so that it tells nothing about the coins that
will judge the block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specdecode.decoding.coins import Purpose
from specdecode.decoding.laws import row_laws
from specdecode.decoding.request import Request
from specdecode.verification import Coins
from specdecode.verification.resampling import inverse_cdf

# More rounds than a block has tokens, so that (round, round, …) is a number in this base.
_ROUNDS = 128


class DraftSampler:
    """The `Sampler` of one draft block.

    Args:
        requests: the batch's requests, length B.
        step: the block's number, one for all or one a row; with the request it keys every coin.
        device: where coins are needed.
        width: most draft tokens of the block, G.
        pending: per row, tokens of this block that stand before what is drawn here; None for none.
        path: which round below which round this is, as a number in base 128; 0 at the top.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        step: int | Sequence[int],
        device: torch.device,
        width: int,
        *,
        pending: Sequence[Sequence[int]] | None = None,
        path: int = 0,
    ) -> None:
        self._requests, self._device = requests, device
        self._steps = [step] * len(requests) if isinstance(step, int) else step
        self._pending = pending or [[] for _ in requests]
        self._path = path
        self._noise = self._draw(Purpose.BELOW_DRAFT if path else Purpose.DRAFT, width)

    def __call__(self, logits: Tensor, drawn: Tensor | None, index: int) -> tuple[Tensor, Tensor]:
        """See `Sampler.__call__`."""
        laws = self.laws(logits[:, None], drawn, index)[:, 0]
        return inverse_cdf(laws, self._noise[:, index]), laws

    def laws(self, logits: Tensor, drafted: Tensor | None, offset: int) -> Tensor:
        """See `Sampler.laws`."""
        if not any(self._pending):
            return row_laws(logits, self._requests, drafted, offset)
        if not any(r.params.needs_history for r in self._requests):
            return row_laws(logits, self._requests, None, 0)
        # Each row has its own number of tokens in front, so each is a batch of its own.
        drafts = [[] for _ in self._requests] if drafted is None else drafted.tolist()
        rows = []
        for row, request in enumerate(self._requests):
            block = torch.tensor([[*self._pending[row], *drafts[row]]])
            start = len(self._pending[row]) + offset
            rows.append(row_laws(logits[row, None], [request], block, start))
        return torch.cat(rows)

    def below(self, turn: int, pending: Sequence[Sequence[int]], width: int) -> DraftSampler:
        """See `Sampler.below`."""
        path = self._path * _ROUNDS + turn + 1
        before = [[*old, *new] for old, new in zip(self._pending, pending, strict=True)]
        return DraftSampler(
            self._requests, self._steps, self._device, width, pending=before, path=path
        )

    def coins(self, width: int) -> Coins:
        """See `Sampler.coins`."""
        accept = self._draw(Purpose.BELOW_ACCEPT, width)
        return Coins(accept=accept, resample=self._draw(Purpose.BELOW_RESAMPLE, 1)[:, 0])

    def _draw(self, purpose: Purpose, count: int) -> Tensor:
        drawn = [
            r.coins.draw(purpose, step, count, self._path)
            for r, step in zip(self._requests, self._steps, strict=True)
        ]
        return torch.from_numpy(np.stack(drawn)).to(self._device)
