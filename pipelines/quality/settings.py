"""What the compiled prompts must satisfy: the `validate` section of params.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdecode.errors import ConfigError

Names = Annotated[tuple[str, ...], Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class ValidateSettings(BaseModel):
    """Limits. Every key must be given: a check that is left out by accident checks nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_prompts: Count = Field(description="fewest prompts in all")
    min_prompt_tokens: Count = Field(description="shortest prompt, chat template included")
    max_prompt_tokens: Count = Field(description="longest prompt, chat template included")
    required_categories: Names = Field(description="categories that must, and alone may, occur")
    required_languages: Names = Field(description="languages that must, and alone may, occur")
    required_difficulties: Names = Field(description="difficulties that must, and alone may, occur")
    min_per_category: Count = Field(description="fewest prompts of a category in one half")
    min_per_language: Count = Field(description="fewest prompts of a language in one half")
    min_per_difficulty: Count = Field(description="fewest prompts of a difficulty in one half")
    max_split_imbalance: Share = Field(description="|development - reserve| / all")
    max_ngram_overlap: Share = Field(
        description="largest share of a prompt's 13-word runs found in one prompt of the other half"
    )

    @classmethod
    def from_params(cls, section: Mapping[str, object]) -> ValidateSettings:
        """Read the section.

        Raises:
            ConfigError: a key is missing, unknown or out of range.
        """
        try:
            return cls.model_validate(dict(section))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in ("validate", *first["loc"]))
            raise ConfigError(f"params.yaml, {key}: {first['msg']}") from error
