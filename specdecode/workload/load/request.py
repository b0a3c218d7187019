"""One request as it is planned: what is asked, when it is due, and how it will be treated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from specdecode.workload.load.sampling import Setting

Messages = list[dict[str, str]]


class Prompt(Protocol):
    """What a request asks. Built only when it is needed: a trace can hold gigabytes of it."""

    @property
    def identity(self) -> str:
        """Equal for two prompts if and only if their content is equal."""

    def text(self) -> str:
        """For the completions API."""

    def messages(self) -> Messages:
        """For the chat API."""

    def token_ids(self) -> list[int] | None:
        """For the completions API instead of the text, or None where there are none."""


@dataclass(frozen=True)
class Request:
    """One request.

    Args:
        index: place in the plan, from 0; warm-up requests count by themselves.
        prompt_id: of the record; unique in a run. A repeat of prompt p is named p~2, p~3, …
        prompt: what is asked.
        max_tokens: most tokens in the reply.
        sampling: how it is drawn.
        due_s: seconds after the start at which it is due; None in a closed loop.
        cancel_after: chunks after which the client closes the stream; None reads to the end.
        asked_tokens: prompt length that was asked for, where the prompt was made to a length.
        warm_up: sent before the measurement, and kept apart from it.
        category: stratum of the record.
        language: stratum of the record.
        difficulty: stratum of the record.
    """

    index: int
    prompt_id: str
    prompt: Prompt = field(repr=False)
    max_tokens: int
    sampling: Setting
    due_s: float | None = None
    cancel_after: int | None = None
    asked_tokens: int | None = None
    warm_up: bool = False
    category: str | None = None
    language: str | None = None
    difficulty: str | None = None
