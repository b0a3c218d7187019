"""Find stop strings in a reply while it grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_UNFINISHED: Final = "\ufffd"  # what a decoder writes for bytes that make no character
_CONTEXT: Final = 32
_ROOM: Final = 3  # of a window, in needs, before it moves on


class StopStrings:
    """Looks for strings in the text of a reply, each time a token comes.

    A string can straddle any number of tokens, and what a decoder makes of a token depends on those
    before it. So the text of the last tokens is searched, of as many as the longest string needs
    and some `_CONTEXT` characters more, and the whole text only where something was found there. A
    window moves on only to where its text is the end of what it was before, and does not begin in
    the middle of a character: from there on tokens mean what they mean in the whole reply.

    Args:
        tokenizer: of the target.
        stop: strings, none empty.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str]) -> None:
        self._tokenizer, self._stop = tokenizer, stop
        self._begins = 0  # token at which the window begins
        self._need = max(map(len, stop)) + _CONTEXT
        self._most = _ROOM * self._need

    def first(self, tokens: Sequence[int]) -> int | None:
        """Where in the decoded text the first one begins; None if there is none.

        Args:
            tokens: the whole reply: that of the last call, and what came since.
        """
        window = self._decoded(tokens, self._begins)
        if self._found(window) is None:
            if len(window) > self._most:
                self._move_on(tokens, window)
            return None
        return self._found(self._decoded(tokens, 0))

    def _move_on(self, tokens: Sequence[int], window: str) -> None:
        middle = (self._begins + len(tokens)) // 2
        rest = self._decoded(tokens, middle)
        if len(rest) >= self._need and window.endswith(rest) and rest[0] != _UNFINISHED:
            self._begins, self._most = middle, _ROOM * self._need
        else:
            self._most = 2 * len(window)

    def _found(self, text: str) -> int | None:
        return min((at for s in self._stop if (at := text.find(s)) >= 0), default=None)

    def _decoded(self, tokens: Sequence[int], begins: int) -> str:
        return str(self._tokenizer.decode(tokens[begins:], skip_special_tokens=True))
