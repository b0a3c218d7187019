"""Text of a reply, as far as it is settled, while tokens come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_UNFINISHED = "\ufffd"  # what a decoder writes for the first bytes of a longer character


class TextStream:
    """Turns tokens into pieces of text whose sum is the reply's text.

    What may still change is held back: a character of which only some bytes are there, and
    anything that may be the beginning of a stop string.

    Args:
        tokenizer: None gives no text.
        stop: strings that end the reply and are no part of it.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str]) -> None:
        self._tokenizer, self._stop = tokenizer, stop
        self._tokens: list[int] = []
        self.sent = ""

    def add(self, tokens: Sequence[int]) -> str:
        """The text that these tokens settle."""
        self._tokens += tokens
        if self._tokenizer is None:
            return ""
        text = str(self._tokenizer.decode(self._tokens, skip_special_tokens=True))
        return self._send(self._settled(text))

    def finish(self, text: str | None) -> str:
        """What is missing from the whole text."""
        text = text or ""
        if not text.startswith(self.sent):  # what was sent cannot be taken back; the rest can come
            self.sent = _common(self.sent, text)
        return self._send(text)

    def _send(self, text: str) -> str:
        if not text.startswith(self.sent):  # it is shorter, or a decoder took back a blank
            return ""
        piece = text[len(self.sent) :]
        self.sent = text
        return piece

    def _settled(self, text: str) -> str:
        text = text.rstrip(_UNFINISHED)
        longest = max((len(s) for s in self._stop), default=1) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(s.startswith(text[-size:]) for s in self._stop):
                return text[:-size]
        return text


def _common(one: str, other: str) -> str:
    """The beginning that both have."""
    pairs = enumerate(zip(one, other, strict=False))
    return one[: next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))]
