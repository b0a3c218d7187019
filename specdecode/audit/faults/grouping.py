"""Requests whose laws are made alike, so that they go through in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from specdecode.decoding.params import SamplingParams


class Asked(Protocol):
    """What is known of a request."""

    @property
    def params(self) -> SamplingParams:
        """Its sampling parameters."""

    @property
    def tokens(self) -> list[int]:
        """Prompt and reply so far."""

    @property
    def prompt(self) -> list[int]:
        """The prompt alone."""


def alike(asked: Sequence[Asked], members: Iterable[int]) -> list[list[int]]:
    """Members by equal parameters (seed and limits aside) and, with penalties, prompt lengths."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for member in members:
        params = asked[member].params
        key = (
            params.temperature,
            params.top_k,
            params.top_p,
            params.min_p,
            params.repetition_penalty,
            params.presence_penalty,
            params.frequency_penalty,
            tuple(sorted((params.logit_bias or {}).items())),
            len(asked[member].prompt) if params.needs_history else 0,
        )
        groups.setdefault(key, []).append(member)
    return list(groups.values())
