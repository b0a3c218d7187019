"""Ways to break the draft's side: what it draws from, what it says of that, where a block ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specdecode.audit.faults.grouping import alike
from specdecode.decoding.distributions import distributions
from specdecode.decoding.params import SamplingParams
from specdecode.decoding.request import Request
from specdecode.drafting import Drafter, Proposal, Sampler
from specdecode.drafting.base import batches_before, cache_bytes
from specdecode.models.cache import KVCache
from specdecode.verification import Coins


def _same(params: SamplingParams) -> SamplingParams:
    return params


@dataclass(frozen=True)
class DraftFault:
    """What is wrong; what is not named is right.

    Attributes:
        greedy: the likeliest token is drafted in place of a sample.
        states: the parameters behind the law that is stated for a draft token.
        cut_below: a block ends before the first token whose probability is below this.
    """

    greedy: bool = False
    states: Callable[[SamplingParams], SamplingParams] = _same
    cut_below: float = 0.0

    def drawn(self, law: Tensor) -> Tensor:
        """The law [R, V] that tokens are really drawn from, given the right one."""
        if not self.greedy:
            return law
        return torch.nn.functional.one_hot(law.argmax(-1), law.shape[-1]).to(law.dtype)

    def kept(self, tokens: Tensor, law: Tensor, lengths: Tensor) -> Tensor:
        """Lengths int64 [B] of blocks [B, G] drawn from law [B, G, V], after the look at them."""
        unlikely = law.gather(-1, tokens[:, :, None])[:, :, 0] < self.cut_below
        return torch.minimum(lengths, (~unlikely).long().cumprod(-1).sum(-1))


class FaultyDrafter:
    """A drafter with a fault around it.

    Args:
        drafter: the right one.
        fault: what is wrong.

    Attributes:
        requests: gives the batch's requests; set when a batch begins.
    """

    def __init__(self, drafter: Drafter, fault: DraftFault) -> None:
        self.name = drafter.name
        self.requests: Callable[[], Sequence[Request]] = tuple
        self._drafter, self._fault = drafter, fault

    @property
    def batches_before(self) -> int:
        """See `specdecode.drafting.base.batches_before`."""
        return batches_before(self._drafter)

    @property
    def cache_bytes(self) -> int:
        """See `specdecode.drafting.base.cache_bytes`."""
        return cache_bytes(self._drafter)

    def begin(self, batch: int, capacity: int, target_cache: KVCache) -> None:
        """See `Drafter.begin`."""
        self._drafter.begin(batch, capacity, target_cache)

    def propose(
        self, contexts: Sequence[Sequence[int]], wanted: list[int], sample: Sampler
    ) -> Proposal:
        """See `Drafter.propose`; with the fault."""
        faulty = _FaultySampler(sample, self._fault, self.requests())
        proposal = self._drafter.propose(contexts, wanted, faulty)
        if not self._fault.cut_below or proposal.tokens.shape[1] == 0:
            return proposal
        lengths = torch.tensor(proposal.lengths, device=proposal.tokens.device)
        cut = self._fault.kept(proposal.tokens, proposal.probs, lengths)
        return replace(proposal, lengths=cut.tolist())

    def keep_rows(self, rows: list[int]) -> None:
        """See `Drafter.keep_rows`."""
        self._drafter.keep_rows(rows)

    def add_rows(self, contexts: Sequence[Sequence[int]], capacity: int) -> None:
        """See `Drafter.add_rows`."""
        self._drafter.add_rows(contexts, capacity)


class _FaultySampler:
    """Draws as the fault says, and states what it says."""

    def __init__(self, sample: Sampler, fault: DraftFault, requests: Sequence[Request]) -> None:
        self._sample, self._fault, self._requests = sample, fault, requests

    def __call__(self, logits: Tensor, drawn: Tensor | None, index: int) -> tuple[Tensor, Tensor]:
        token, law = self._sample(logits, drawn, index)
        if self._fault.greedy:
            token = law.argmax(-1)
        if self._fault.states is not _same:
            law = self._restated(logits, drawn, law)
        return token, law

    def _restated(self, logits: Tensor, drawn: Tensor | None, law: Tensor) -> Tensor:
        restated = torch.zeros_like(law)
        before = [[] for _ in self._requests] if drawn is None else drawn.tolist()
        for group in alike(self._requests, range(len(self._requests))):
            one = self._requests[group[0]]
            params = self._fault.states(one.params)
            contexts = None
            if params.needs_history:
                contexts = [self._requests[row].tokens + before[row] for row in group]
            at = torch.tensor(group, device=law.device)
            restated[at] = distributions(logits[at], params, contexts, len(one.prompt))
        return restated

    def laws(self, logits: Tensor, drafted: Tensor | None, offset: int) -> Tensor:
        return self._sample.laws(logits, drafted, offset)

    def below(self, turn: int, pending: Sequence[Sequence[int]], width: int) -> Sampler:
        return self._sample.below(turn, pending, width)

    def coins(self, width: int) -> Coins:
        return self._sample.coins(width)


def unfiltered(params: SamplingParams) -> SamplingParams:
    """Without top-k, top-p and min-p."""
    return params.model_copy(update={"top_k": 0, "top_p": 1.0, "min_p": 0.0})


def untempered(params: SamplingParams) -> SamplingParams:
    """At temperature 1."""
    return params.model_copy(update={"temperature": 1.0})
