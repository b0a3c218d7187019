"""Normalised text, words, shingles, hashes: one definition for checks, splits and leak search."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

# Scripts without spaces between words: each character counts as a word of its own.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_SPACE = re.compile(r"\s+")


def fold(text: str) -> str:
    """Compatibility form (NFKC), case folded, white space collapsed; punctuation is kept."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _SPACE.sub(" ", folded).strip()


def words(text: str) -> list[str]:
    """Words of the folded text; in Chinese, Japanese and Thai each character is one."""
    return _WORD.findall(fold(text))


def normalised(text: str) -> str:
    """Words joined by one space: what two prompts share when a reader calls them the same."""
    return " ".join(words(text))


def sha256(text: str) -> str:
    """SHA-256 of the UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def character_shingles(text: str, size: int = 5) -> frozenset[str]:
    """Every run of `size` characters of the normalised text (the whole text when it is shorter)."""
    plain = normalised(text)
    return frozenset(plain[i : i + size] for i in range(max(1, len(plain) - size + 1)))


def word_ngrams(sequence: Sequence[str], size: int = 13) -> frozenset[tuple[str, ...]]:
    """Every run of `size` words; empty when there are fewer words than that."""
    return frozenset(tuple(sequence[i : i + size]) for i in range(len(sequence) - size + 1))
