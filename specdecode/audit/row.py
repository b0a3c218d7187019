"""One output to judge, and what its checks need to know of the target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specdecode.audit.places import Step
from specdecode.decoding.params import SamplingParams
from specdecode.decoding.prompts import Prompt


class Vocabulary(Protocol):
    """What the checks need to know of the target."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""

    @property
    def eos_token_ids(self) -> Collection[int]:
        """Ids that end a reply."""

    @property
    def max_context(self) -> int | None:
        """Longest prompt plus output, or None where there is no limit."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids."""

    def encode(self, prompt: Prompt, where: str) -> list[int]:
        """Token ids of a prompt given as text or chat messages; `where` names it in errors."""


@dataclass(frozen=True)
class AuditRow:
    """One output to judge.

    Attributes:
        label: how messages name the row (prompt id if there is one, and its place in the input).
        prompt_id: None when the record has none.
        prompt: prompt token ids.
        output: emitted token ids in order, the end token included when one was drawn.
        params: sampling parameters the output was requested with.
        finish_reason: "stop", "length" or None when not recorded.
        order_index: place in the recorded order, or None.
        strata: category, difficulty, language, where recorded.
        steps: of its trace; empty when none was recorded.
        rule: verification rule the steps were made by, or None.
    """

    label: str
    prompt_id: str | None
    prompt: list[int]
    output: list[int]
    params: SamplingParams
    finish_reason: str | None
    order_index: int | None
    strata: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    rule: str | None = None
