"""Base of everything a plan is made of: frozen, strictly typed, no unknown field."""

from __future__ import annotations

from typing import Annotated
from unicodedata import category

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

TURNS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _shown_as_written(text: str) -> str:
    for character in text:
        if character in TURNS or (category(character) == "Cc" and character not in "\n\t"):
            raise ValueError(
                f"holds {character!a}, which shows another text than there is; remove it"
            )
    return text


Text = Annotated[str, Field(min_length=1), AfterValidator(_shown_as_written)]
"""Text for people. It cannot move a terminal's cursor or turn the direction it is read in."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Date = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Strict(BaseModel):
    """A part of a plan. NaN and infinity are refused, numbers are not made from text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def refuse_twice(field: str, names: list[str]) -> None:
    """Names must differ, or a lookup by name would hide one of them.

    Raises:
        ValueError: a name occurs twice.
    """
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{field}: {', '.join(twice)} occurs twice")
