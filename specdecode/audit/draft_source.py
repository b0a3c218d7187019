"""Where the draft's laws come from: its network, or what a drafter without one proposes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from torch import Tensor

from specdecode.audit.proposals import ProposalScorer
from specdecode.audit.scorer import Pair
from specdecode.decoding.scoring import TeacherForcing, stepwise, stepwise_over
from specdecode.drafting import drafting_network, make_drafter, scoring_network
from specdecode.errors import ModelMismatchError
from specdecode.models import LoadedModel
from specdecode.models.network import CausalNetwork

# Smaller than a decoding batch: target and draft logits over the whole vocabulary are held at once.
BATCH_TOKENS = 1024


class DraftSource(Protocol):
    """Whatever gives draft logits for (prompt, reply) pairs."""

    def score(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
        """See `Scorer.draft`."""
        ...

    def one_by_one(self, pair: Pair) -> Tensor:
        """See `Scorer.draft_one_by_one`."""
        ...


class NetworkSource:
    """A draft with a network.

    Args:
        scoring: laid out for long texts.
        one_by_one: scores a pair as an engine does; it may have to build another network.
    """

    def __init__(self, scoring: CausalNetwork, one_by_one: Callable[[Pair], Tensor]) -> None:
        self._scoring = TeacherForcing(scoring, batch_tokens=BATCH_TOKENS)
        self._one_by_one = one_by_one

    def score(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
        """See `Scorer.draft`."""
        yield from self._scoring.score(pairs)

    def one_by_one(self, pair: Pair) -> Tensor:
        """See `Scorer.draft_one_by_one`."""
        return self._one_by_one(pair)


def draft_source(
    draft: str | LoadedModel | CausalNetwork | None, target: LoadedModel
) -> DraftSource | None:
    """What tells the draft's laws; None when no draft is given.

    A drafter without a network (prompt lookup) is asked what it would propose after each prefix:
    its one-hot law is where a faulty verifier leans, as with any other draft.

    Raises:
        ModelMismatchError: the draft has another vocabulary than the target.
    """
    if draft is None:
        return None
    if isinstance(draft, str):
        scoring = scoring_network(draft, target)
        if scoring is None:
            return ProposalScorer(make_drafter(draft, target), target.vocab_size)
        one_by_one = _as_drafted(draft, target)
    else:
        scoring = network = draft.network if isinstance(draft, LoadedModel) else draft

        def one_by_one(pair: Pair) -> Tensor:
            return stepwise(network, pair)

    if scoring.vocab_size != target.vocab_size:
        raise ModelMismatchError(
            f"the draft has {scoring.vocab_size} token ids and the target {target.vocab_size}; "
            "audit with the draft that the outputs were made with"
        )
    return NetworkSource(scoring, one_by_one)


def _as_drafted(spec: str, target: LoadedModel) -> Callable[[Pair], Tensor]:
    """Scores with the engine's own kernels, which are built when they are asked for."""
    built: list[tuple[CausalNetwork, bool]] = []

    def one_by_one(pair: Pair) -> Tensor:
        if not built:
            built.append(drafting_network(spec, target))
        [(network, reads_target)] = built
        if reads_target:
            return stepwise_over(target.network, network, pair)
        return stepwise(network, pair)

    return one_by_one
