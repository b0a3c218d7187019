"""Scoring with loaded models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from torch import Tensor

from specdecode.audit.proposals import ProposalScorer
from specdecode.audit.scorer import Pair
from specdecode.decoding.prompts import Prompt, encode_prompt
from specdecode.decoding.scoring import TeacherForcing, stepwise
from specdecode.drafting import make_drafter, scoring_network
from specdecode.errors import ModelMismatchError
from specdecode.models import LoadedModel
from specdecode.models.network import CausalNetwork

# Smaller than a decoding batch: target and draft logits over the whole vocabulary are held at once.
_BATCH_TOKENS = 1024


class DraftSource(Protocol):
    """Whatever gives draft logits for (prompt, reply) pairs."""

    def score(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
        """See `Scorer.draft`."""
        ...


class ModelScorer:
    """A scorer over a loaded target and, where it is known, the source of the draft's laws."""

    def __init__(self, target: LoadedModel, draft: DraftSource | None = None) -> None:
        self._target = target
        # Every arm replies to the same prompts; kept states spare reading them again.
        self._by_target = TeacherForcing(target, batch_tokens=_BATCH_TOKENS)
        self._by_draft = draft
        self.vocab_size: int = target.vocab_size
        self.eos_token_ids: Collection[int] = target.eos_token_ids
        self.max_context: int | None = target.max_context
        self.has_draft = draft is not None

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        if self._target.tokenizer is None:
            raise ModelMismatchError(
                "rows with stop strings need the target's tokenizer, and the target has none"
            )
        return str(self._target.tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def encode(self, prompt: Prompt, where: str) -> list[int]:
        """Token ids of a prompt given as text or chat messages."""
        return encode_prompt(prompt, self._target, where)

    @property
    def bos_token_id(self) -> int | None:
        """The tokenizer's start token, None where there is none or no tokenizer."""
        found = getattr(self._target.tokenizer, "bos_token_id", None)
        return None if found is None else int(found)

    def target(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
        """See `Scorer.target`."""
        yield from self._by_target.score(pairs)

    def draft(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
        """See `Scorer.draft`."""
        if self._by_draft is None:
            raise ModelMismatchError("this audit was started without a draft")
        yield from self._by_draft.score(pairs)

    def one_by_one(self, prompt: list[int], output: list[int]) -> Tensor:
        """See `Scorer.one_by_one`."""
        return stepwise(self._target, (prompt, output))


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
        network = scoring_network(draft, target)
        if network is None:
            return ProposalScorer(make_drafter(draft, target), target.vocab_size)
    else:
        network = draft.network if isinstance(draft, LoadedModel) else draft
    if network.vocab_size != target.vocab_size:
        raise ModelMismatchError(
            f"the draft has {network.vocab_size} token ids and the target {target.vocab_size}; "
            "audit with the draft that the outputs were made with"
        )
    return TeacherForcing(network, batch_tokens=_BATCH_TOKENS)
