"""Scoring with loaded models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from torch import Tensor

from specdecode.audit.draft_source import BATCH_TOKENS, DraftSource
from specdecode.audit.scorer import Pair
from specdecode.decoding.prompts import Prompt, encode_prompt
from specdecode.decoding.scoring import TeacherForcing, stepwise
from specdecode.errors import ModelMismatchError
from specdecode.models import LoadedModel


class ModelScorer:
    """A scorer over a loaded target and, where it is known, the source of the draft's laws."""

    def __init__(self, target: LoadedModel, draft: DraftSource | None = None) -> None:
        self._target = target
        # Every arm replies to the same prompts; kept states spare reading them again.
        self._by_target = TeacherForcing(target, batch_tokens=BATCH_TOKENS)
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
        yield from self._draft().score(pairs)

    def one_by_one(self, prompt: list[int], output: list[int]) -> Tensor:
        """See `Scorer.one_by_one`."""
        return stepwise(self._target, (prompt, output))

    def draft_one_by_one(self, prompt: list[int], output: list[int]) -> Tensor:
        """See `Scorer.draft_one_by_one`."""
        return self._draft().one_by_one((prompt, output))

    def _draft(self) -> DraftSource:
        if self._by_draft is None:
            raise ModelMismatchError("this audit was started without a draft")
        return self._by_draft
