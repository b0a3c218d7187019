"""Base of everything a plan is made of: frozen, strictly typed, no unknown field."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]
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
