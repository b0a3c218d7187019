"""What every checker has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NonEmpty = Annotated[str, Field(min_length=1)]
Phrases = Annotated[tuple[NonEmpty, ...], Field(min_length=1)]


class BaseChecker(BaseModel, ABC):
    """Frozen and strict: an unknown or mistyped parameter is an error, not a skipped check."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    def score(self, text: str) -> float:
        """Score a reply in [0, 1]; must not raise whatever the text holds."""
