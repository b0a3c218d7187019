"""A suffix automaton: every place where the end of a text occurred before, at no search.

Built token by token (Blumer et al., "The smallest automaton recognizing the subwords of a text",
1985). A state stands for all strings with the same set of end positions; its link leads to the
longest suffix of those that ends in more places. So the longest end of the text that occurred
before is simply the link of the state the whole text leads to.

Each state also counts its end positions and knows the latest. A new token ends a whole chain of
states, as long as the text where that repeats one token; only the longest strings of the chain are
updated, which bounds the work by a constant. Counts are exact unless an end of the text occurred
before in more than that many different ways.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

_CHAIN = 32  # states updated per token
_UNDONE = 256  # tokens that can be taken back without building anew

_NONE = -1


@dataclass(frozen=True)
class Match:
    """Where the end of some text stands in an automaton.

    Attributes:
        state: the state it leads to.
        length: how many of its last tokens match.
    """

    state: int
    length: int


@dataclass(frozen=True)
class _Change:
    """What one token changed: the states that gained an arc, and how an older state was split."""

    gained: list[int]
    split: int
    redirected: list[int]
    chain: list[tuple[int, int]]


class SuffixAutomaton:
    """All substrings of a text that grows at its end, and shrinks there a little."""

    def __init__(self, text: Sequence[int] = ()) -> None:
        self.text: list[int] = []
        self._arcs: list[dict[int, int]] = [{}]
        self._link, self._length = [_NONE], [0]
        self._count, self._latest = [0], [0]
        self._whole = [0]  # the state of each prefix
        self._changes: deque[_Change] = deque(maxlen=_UNDONE)
        self.extend(text)

    def turned_into(self, text: Sequence[int]) -> SuffixAutomaton:
        """The automaton of another text, at the price of the tokens in which the two differ.

        Returns:
            This one, changed; a new one if the texts part too far from the end.
        """
        shared = min(len(self.text), len(text))
        if self.text[:shared] != list(text[:shared]):
            shared = next(i for i in range(shared) if self.text[i] != text[i])
        if len(self.text) - shared > len(self._changes):
            return SuffixAutomaton(text)
        while len(self.text) > shared:
            self._take_back()
        self.extend(text[shared:])
        return self

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens; amortised constant time each."""
        for token in tokens:
            self._append(token)

    def end(self) -> Match:
        """The longest end of the text that occurred before."""
        state = max(0, self._link[self._whole[-1]])
        return Match(state, self._length[state])

    def find(self, text: Sequence[int]) -> Match:
        """The longest end of another text that occurs in this one."""
        state, length = 0, 0
        for token in text:
            while state > 0 and token not in self._arcs[state]:
                state = self._link[state]
                length = self._length[state]
            if token in self._arcs[state]:
                state, length = self._arcs[state][token], length + 1
        return Match(state, length)

    def continuation(self, match: Match, most: int) -> list[int]:
        """What usually followed a match: at most `most` tokens.

        Each is the most frequent follower of the longest end that was ever followed by anything; of
        equally frequent ones the latest. Negative tokens separate texts and are never proposed.
        """
        state, tokens = match.state, list[int]()
        while state > 0 and len(tokens) < most:  # the root knows no text to go by
            ranks = {t: self._rank(s) for t, s in self._arcs[state].items() if t >= 0}
            if ranks:
                tokens.append(max(ranks, key=lambda t: ranks[t]))
                state = self._arcs[state][tokens[-1]]
            else:
                state = self._link[state]
        return tokens

    def _rank(self, state: int) -> tuple[int, int]:
        return self._count[state], self._latest[state]

    def _append(self, token: int) -> None:
        arcs, link = self._arcs, self._link
        end = len(self.text) + 1
        new = self._add({}, _NONE, end, 1, end)
        gained, redirected, split = list[int](), list[int](), _NONE
        state = self._whole[-1]
        while state != _NONE and token not in arcs[state]:
            arcs[state][token] = new
            gained.append(state)
            state = link[state]
        if state == _NONE:
            link[new] = 0
        else:
            old = arcs[state][token]
            if self._length[old] == self._length[state] + 1:
                link[new] = old
            else:  # only a part of the old state's strings ends here, too: they become a state
                split = old
                part = self._add(
                    dict(arcs[old]),
                    link[old],
                    self._length[state] + 1,
                    self._count[old],
                    self._latest[old],
                )
                while state != _NONE and arcs[state].get(token) == old:
                    arcs[state][token] = part
                    redirected.append(state)
                    state = link[state]
                link[old] = link[new] = part
        self.text.append(token)
        self._whole.append(new)
        self._changes.append(_Change(gained, split, redirected, self._count_end(link[new], end)))

    def _count_end(self, state: int, end: int) -> list[tuple[int, int]]:
        """Note that the strings of `state` end at `end`; return states and their latest before."""
        chain: list[tuple[int, int]] = []
        while state > 0 and len(chain) < _CHAIN:
            chain.append((state, self._latest[state]))
            self._count[state] += 1
            self._latest[state] = end
            state = self._link[state]
        return chain

    def _take_back(self) -> None:
        """Undo the last `_append`, step by step backwards."""
        token, change = self.text.pop(), self._changes.pop()
        for state, latest in change.chain:
            self._count[state] -= 1
            self._latest[state] = latest
        if change.split != _NONE:
            part = len(self._arcs) - 1
            self._link[change.split] = self._link[part]
            for state in change.redirected:
                self._arcs[state][token] = change.split
            self._remove_last()
        for state in change.gained:
            del self._arcs[state][token]
        self._remove_last()
        self._whole.pop()

    def _add(self, arcs: dict[int, int], link: int, length: int, count: int, latest: int) -> int:
        self._arcs.append(arcs)
        self._link.append(link)
        self._length.append(length)
        self._count.append(count)
        self._latest.append(latest)
        return len(self._arcs) - 1

    def _remove_last(self) -> None:
        for column in (self._arcs, self._link, self._length, self._count, self._latest):
            column.pop()
