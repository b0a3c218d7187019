"""Scoring with loaded models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from torch import Tensor

from specdecode.audit.scorer import Pair
from specdecode.decoding.scoring import TeacherForcing, stepwise
from specdecode.drafting import scoring_network
from specdecode.errors import ModelMismatchError
from specdecode.models import LoadedModel
from specdecode.models.network import CausalNetwork

# Smaller than a decoding batch: target and draft logits over the whole vocabulary are held at once.
_BATCH_TOKENS = 1024


class ModelScorer:
    """A scorer over a loaded target and, where it is known, the network that drafts for it."""

    def __init__(self, target: LoadedModel, draft: CausalNetwork | None = None) -> None:
        if draft is not None and draft.vocab_size != target.vocab_size:
            raise ModelMismatchError(
                f"the draft has {draft.vocab_size} token ids and the target {target.vocab_size}; "
                "audit with the draft that the outputs were made with, or with none"
            )
        self._target = target
        # Every arm replies to the same prompts; kept states spare reading them again.
        self._by_target = TeacherForcing(target, batch_tokens=_BATCH_TOKENS)
        self._by_draft = (
            None if draft is None else TeacherForcing(draft, batch_tokens=_BATCH_TOKENS)
        )
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


def draft_network(
    draft: str | LoadedModel | CausalNetwork | None, target: LoadedModel
) -> CausalNetwork | None:
    """The network behind a draft; None for no draft, and for drafters that have no network.

    Prompt lookup proposes without a model, so there is no law that a faulty verifier could leak;
    the audit then looks in the other directions only and says so.
    """
    if isinstance(draft, str):
        return scoring_network(draft, target)
    return draft.network if isinstance(draft, LoadedModel) else draft
