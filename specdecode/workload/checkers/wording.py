"""Checks on the wording of a reply: exact, contains, not_contains, regex."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

import regex  # type: ignore[import-untyped]
from pydantic import Field, field_validator, model_validator

from specdecode.workload.checkers.base import BaseChecker, NonEmpty, Phrases
from specdecode.workload.text import fold

PATTERN_TIMEOUT_S = 1.0


def _without_punctuation(text: str) -> str:
    """Folded text without punctuation, except where it belongs to a number (3.5, -5)."""
    folded = fold(text)
    kept = []
    for i, char in enumerate(folded):
        if not unicodedata.category(char).startswith("P"):
            kept.append(char)
            continue
        before, after = folded[i - 1 : i], folded[i + 1 : i + 2]
        inside_number = char in ".," and before.isdigit() and after.isdigit()
        sign = char == "-" and after.isdigit() and not before.isalnum()
        kept.append(char if inside_number or sign else " ")
    return " ".join("".join(kept).split())


def _has_phrase(text: str, phrase: str) -> bool:
    """Whether the folded text holds the folded phrase; "4" is not found inside "14"."""
    pattern = re.escape(phrase)
    if phrase[0].isdigit():
        pattern = r"(?<!\d)" + pattern
    if phrase[-1].isdigit():
        pattern += r"(?!\d)"
    return re.search(pattern, text) is not None


def _folded_or_refuse(phrases: Sequence[str]) -> None:
    for phrase in phrases:
        if not fold(phrase):
            raise ValueError("a phrase must hold something other than white space")


class Exact(BaseChecker):
    """The whole reply is one of the answers, up to case, spacing, punctuation and Unicode form."""

    type: Literal["exact"] = "exact"
    answers: Phrases

    @field_validator("answers")
    @classmethod
    def _not_only_punctuation(cls, answers: tuple[str, ...]) -> tuple[str, ...]:
        for answer in answers:
            if not _without_punctuation(answer):
                raise ValueError("an answer must hold something other than punctuation")
        return answers

    def score(self, text: str) -> float:
        """1 when the reply equals an answer, else 0."""
        reply = _without_punctuation(text)
        return float(any(reply == _without_punctuation(answer) for answer in self.answers))


class Contains(BaseChecker):
    """The reply holds all phrases of `all` and at least one of `any`, ignoring case."""

    type: Literal["contains"] = "contains"
    all: tuple[NonEmpty, ...] = ()
    any: tuple[NonEmpty, ...] = ()

    @model_validator(mode="after")
    def _something_to_look_for(self) -> Contains:
        if not self.all and not self.any:
            raise ValueError("give 'all' or 'any' at least one phrase")
        _folded_or_refuse((*self.all, *self.any))
        return self

    def score(self, text: str) -> float:
        """1 when everything asked for is there, else 0."""
        reply = fold(text)
        for phrase in self.all:
            if not _has_phrase(reply, fold(phrase)):
                return 0.0
        if not self.any:
            return 1.0
        return float(any(_has_phrase(reply, fold(phrase)) for phrase in self.any))


class NotContains(BaseChecker):
    """The reply holds none of the phrases; an empty reply fails, since silence answers nothing."""

    type: Literal["not_contains"] = "not_contains"
    none: Phrases

    @field_validator("none")
    @classmethod
    def _real_phrases(cls, none: tuple[str, ...]) -> tuple[str, ...]:
        _folded_or_refuse(none)
        return none

    def score(self, text: str) -> float:
        """1 when the reply says something and none of the phrases, else 0."""
        reply = fold(text)
        return float(bool(reply) and not any(_has_phrase(reply, fold(p)) for p in self.none))


class Regex(BaseChecker):
    """The pattern is found somewhere in the reply (NFC form, case as written).

    A pattern that backtracks for longer than `PATTERN_TIMEOUT_S` on a reply has not found it. The
    `regex` package is used because the standard library's `re` cannot be stopped.
    """

    type: Literal["regex"] = "regex"
    pattern: str = Field(min_length=1)

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            regex.compile(pattern)
        except (regex.error, RecursionError, OverflowError) as error:
            raise ValueError(f"not a valid regular expression: {error}") from error
        return pattern

    def score(self, text: str) -> float:
        """1 when the pattern is found, else 0."""
        reply = unicodedata.normalize("NFC", text)
        try:
            found = regex.search(self.pattern, reply, timeout=PATTERN_TIMEOUT_S)
        except TimeoutError:
            return 0.0
        return float(found is not None)
