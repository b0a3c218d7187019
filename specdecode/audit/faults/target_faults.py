"""Ways to break the target's side: parameters at verified positions, and the cache behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdecode.audit.faults.grouping import Asked, alike
from specdecode.decoding.distributions import distributions
from specdecode.decoding.params import SamplingParams
from specdecode.models.cache import KVCache
from specdecode.models.network import CausalNetwork

if TYPE_CHECKING:
    from specdecode.decoding.loop import Batch


def _same(params: SamplingParams) -> SamplingParams:
    return params


@dataclass(frozen=True)
class TargetFault:
    """What is wrong; what is not named is right. Row 0 is the one plain decoding has, too.

    Attributes:
        verified: the parameters that act on rows 1..G, after draft tokens.
        bonus: the parameters that act on the last row of a block.
        forgets_draft: penalties at rows 1..G do not count the draft tokens before them.
        stale_cache: what a rejected draft token left in the cache stays there in place of the token
            that took its position.
    """

    verified: Callable[[SamplingParams], SamplingParams] = _same
    bonus: Callable[[SamplingParams], SamplingParams] = _same
    forgets_draft: bool = False
    stale_cache: bool = False

    @property
    def changes_laws(self) -> bool:
        """Whether logits become other laws than they should."""
        return self.forgets_draft or self.verified is not _same or self.bonus is not _same


def wrong_laws(
    fault: TargetFault,
    logits: Tensor,
    asked: Sequence[Asked],
    drafted: Tensor,
    lengths: Sequence[int],
) -> Tensor:
    """The target's laws as a broken engine makes them.

    Args:
        fault: what is wrong.
        logits: float [B, G + 1, V], raw.
        asked: the requests, length B.
        drafted: int64 [B, G].
        lengths: real draft tokens per row, length B.

    Returns:
        float [B, G + 1, V].
    """
    drafts, width = drafted.tolist(), logits.shape[1]
    rows: dict[tuple[str, int], list[int]] = {}
    for b, length in enumerate(lengths):
        for t in range(width):
            kind = "bonus" if t == length > 0 else "verified" if t else "right"
            rows.setdefault((kind, t), []).append(b)
    changes = {"bonus": fault.bonus, "verified": fault.verified, "right": _same}
    laws = torch.zeros_like(logits)
    for (kind, t), members in rows.items():
        change = changes[kind]
        if kind == "bonus" and change is _same:
            change = fault.verified
        for group in alike(asked, members):
            params = change(asked[group[0]].params)
            contexts = None
            if params.needs_history:
                seen = 0 if fault.forgets_draft else t
                contexts = [asked[b].tokens + drafts[b][:seen] for b in group]
            at = torch.tensor(group, device=logits.device)
            laws[at, t] = distributions(
                logits[at, t], params, contexts, len(asked[group[0]].prompt)
            )
    return laws


class WatchedNetwork:
    """The target's network, which remembers what it said last, and may keep a stale cache.

    Args:
        network: the right one.
        batch: what is decoded with it.
        stale_cache: see `TargetFault`.

    Attributes:
        logits: float [B, T, V] of the last pass.
    """

    def __init__(self, network: CausalNetwork, batch: Batch, *, stale_cache: bool) -> None:
        self.device, self.vocab_size = network.device, network.vocab_size
        self.logits: Tensor | None = None
        self._network, self._batch, self._stale_cache = network, batch, stale_cache
        self._fed: dict[int, tuple[int, list[int]]] = {}  # by request: first position, tokens

    def forward(
        self,
        tokens: Tensor,
        starts: list[int],
        cache: KVCache,
        select: list[list[int]] | None = None,
    ) -> Tensor:
        """See `CausalNetwork.forward`."""
        scores = self._stale_cache and cache is self._batch.cache and select is None
        if scores and tokens.shape[1] > 1:
            self.logits = self._on_stale_state(tokens, starts, cache)
        else:
            self.logits = self._network.forward(tokens, starts, cache, select=select)
        return self.logits

    def _on_stale_state(self, tokens: Tensor, starts: list[int], cache: KVCache) -> Tensor:
        """Row 0 is right; then what was rejected is put back, and the other rows read it."""
        first = self._network.forward(tokens[:, :1], starts, cache)
        left = tokens[:, :1].clone()
        for row, (request, start) in enumerate(zip(self._batch.requests, starts, strict=True)):
            begun, fed = self._fed.get(id(request), (start, []))
            if 0 < start - begun < len(fed):
                left[row, 0] = fed[start - begun]
            self._fed[id(request)] = (start, tokens[row].tolist())
        self._network.forward(left, starts, cache)
        after = [start + 1 for start in starts]
        return torch.cat([first, self._network.forward(tokens[:, 1:], after, cache)], 1)


def without_penalties(params: SamplingParams) -> SamplingParams:
    """Without repetition, presence and frequency penalty."""
    changes = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    return params.model_copy(update=changes)


def at_other_temperature(factor: float) -> Callable[[SamplingParams], SamplingParams]:
    """At a temperature that is off by a factor."""

    def change(params: SamplingParams) -> SamplingParams:
        return params.model_copy(update={"temperature": params.temperature * factor})

    return change
