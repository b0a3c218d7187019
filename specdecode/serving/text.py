"""Text of a reply, as far as it is settled, while tokens come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_UNFINISHED = "\ufffd"  # what a decoder writes for the first bytes of a longer character


class TextStream:
    """Turns tokens into pieces of text whose sum is the reply's text.

    What may still change is held back: a character of which only some bytes are there, and
    anything that may be the beginning of a stop string.

    Only the newest tokens are decoded, behind those that came before them, by which a decoder may
    decide about blanks. Where it takes back what it said, all of them are.

    Args:
        tokenizer: None gives no text.
        stop: strings that end the reply and are no part of it.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str]) -> None:
        self._tokenizer, self._stop = tokenizer, stop
        self._tokens: list[int] = []
        self._text = ""  # of the first `_read` tokens
        self._read = self._before = 0  # the window begins at `_before`
        self._sent = ""

    def add(self, tokens: Sequence[int]) -> str:
        """The text that these tokens settle."""
        if self._tokenizer is None or not tokens:
            return ""
        self._tokens += tokens
        known = self._decoded(self._before, self._read)
        window = self._decoded(self._before, None)
        if window.startswith(known):
            text = self._text + window[len(known) :]
        else:
            text = self._decoded(0, None)
        if not text.endswith(_UNFINISHED):
            self._text, self._before, self._read = text, self._read, len(self._tokens)
        return self._send(self._settled(text))

    def finish(self, text: str | None) -> str:
        """What is missing from the whole text."""
        return self._send(text or "")

    def _decoded(self, start: int, end: int | None) -> str:
        return str(self._tokenizer.decode(self._tokens[start:end], skip_special_tokens=True))

    def _send(self, text: str) -> str:
        if self._sent.startswith(text):
            return ""
        if text.startswith(self._sent):
            piece = text[len(self._sent) :]
        else:  # what was sent cannot be taken back, should a decoder do so; the rest can come
            piece = text[len(_common(self._sent, text)) :]
        self._sent = text
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
