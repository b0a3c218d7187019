"""Suffix decoding: the longest repetition decides what follows, and how much of it is proposed.

Looks up the longest end of the row that occurred before, however long it is, in a suffix automaton
that grows with the row, and proposes what followed it: the most frequent continuation, because that
is the most probable one as far as the text can tell, and of equally frequent ones the latest,
because topics move on. A long match is strong evidence, so the draft may be as long as the match
(times a factor). No model and no randomness: the draft law is one-hot.
(Oliaro et al., "SuffixDecoding", arXiv 2411.04975; ArcticInference.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from torch.nn.functional import one_hot

from specdecode.drafting.base import Proposal, Sampler, empty_proposal
from specdecode.drafting.suffix_automaton import SuffixAutomaton
from specdecode.models.cache import KVCache

# Longer matches with other replies are no stronger evidence, and this bounds the search.
_SEARCHED = 64


class SuffixDrafter:
    """Copies what followed the longest earlier occurrence of the row's end.

    Args:
        vocab_size: length V of a one-hot row.
        device: where proposals are made.
        factor: draft tokens per matching token.
        shortest: shortest match that counts.
        remember: tokens of earlier replies, of any request, that are searched, too. With 0 a row
            sees nothing but itself. With more, replies of one user show in the timing of another's,
            and a seed no longer fixes a sampled reply: it depends on the replies remembered, and
            its coins on the number of batches before (else a repeated seed would meet drafts made
            with its own coins, which biases the reply). Its law stays the target's.

    Attributes:
        batches_before: batches begun so far, if any are remembered (see `base.batches_before`).
    """

    def __init__(
        self,
        vocab_size: int,
        device: torch.device,
        *,
        factor: float = 1.0,
        shortest: int = 2,
        remember: int = 0,
    ) -> None:
        self.name = "suffix:shared" if remember else "suffix"
        self._vocab_size, self._device = vocab_size, device
        self._factor, self._shortest = factor, shortest
        self._rows: list[_Row] = []
        self._earlier = EarlierReplies(remember)
        self._remembers = remember > 0
        self.batches_before = 0

    def begin(self, batch: int, capacity: int, target_cache: KVCache) -> None:
        """Forget the rows; their replies are searched from now on, if any are remembered."""
        del capacity, target_cache
        self.batches_before += self._remembers
        self._earlier.add([row.reply() for row in self._rows])
        self._rows = [_Row() for _ in range(batch)]

    def propose(
        self, contexts: Sequence[Sequence[int]], wanted: list[int], sample: Sampler
    ) -> Proposal:
        """See `Drafter.propose`; rows that repeat nothing draft nothing."""
        del sample  # nothing is drawn
        self._rows += [_Row() for _ in range(len(contexts) - len(self._rows))]
        found = [
            self._continuation(row, context, most)
            for row, context, most in zip(self._rows, contexts, wanted, strict=False)
        ]
        lengths = [len(tokens) for tokens in found]
        width = max(lengths)
        if width == 0:
            return empty_proposal(len(contexts), self._vocab_size, self._device)
        padded = [tokens + [0] * (width - len(tokens)) for tokens in found]
        tokens = torch.tensor(padded, device=self._device)
        return Proposal(tokens, one_hot(tokens, self._vocab_size).float(), lengths)

    def keep_rows(self, rows: list[int]) -> None:
        """See `Drafter.keep_rows`. What others wrote is searched from the next batch on."""
        gone = [row for index, row in enumerate(self._rows) if index not in rows]
        self._earlier.add_later([row.reply() for row in gone])
        self._rows = [self._rows[row] for row in rows]

    def add_rows(self, contexts: Sequence[Sequence[int]], capacity: int) -> None:
        """See `Drafter.add_rows`. They find what was remembered when the batch began."""
        del capacity
        self._rows += [_Row() for _ in contexts]

    def _continuation(self, row: _Row, context: Sequence[int], most: int) -> list[int]:
        own = row.read(context)
        source, match = own, own.end()
        elsewhere = self._earlier.replies.find(context[-_SEARCHED:])
        if elsewhere.length > match.length:
            source, match = self._earlier.replies, elsewhere
        if match.length < self._shortest:
            return []
        return source.continuation(match, min(most, int(self._factor * match.length)))


class _Row:
    """A row's text so far."""

    def __init__(self) -> None:
        self._automaton = SuffixAutomaton()
        self._prompt: int | None = None

    def read(self, context: Sequence[int]) -> SuffixAutomaton:
        """Take over what is new in `context`, and drop what is no longer in it."""
        if self._prompt is None:
            self._prompt = len(context) - 1  # the prompt's own pass has yielded one token
        self._automaton = self._automaton.turned_into(context)
        return self._automaton

    def reply(self) -> list[int]:
        return self._automaton.text[self._prompt :]


class EarlierReplies:
    """The latest replies of earlier requests.

    Args:
        capacity: most tokens kept; 0 keeps none.
    """

    def __init__(self, capacity: int) -> None:
        self.replies = SuffixAutomaton()
        self._capacity = capacity
        self._kept: deque[list[int]] = deque()
        self._waiting: list[list[int]] = []
        self._number = 0

    def add_later(self, replies: list[list[int]]) -> None:
        """Keep replies, to be found after the next `add`."""
        self._waiting += replies

    def add(self, replies: list[list[int]]) -> None:
        """Keep replies, and let everything kept be found."""
        new = [reply[-self._capacity :] for reply in self._waiting + replies if reply]
        self._waiting = []
        if self._capacity == 0 or not new:
            return
        self._kept += new
        if sum(map(len, self._kept)) > self._capacity:
            # Half is dropped at once, so that building anew is rare.
            while len(self._kept) > 1 and sum(map(len, self._kept)) > self._capacity // 2:
                self._kept.popleft()
            self.replies, new = SuffixAutomaton(), list(self._kept)
        for reply in new:
            self._number += 1  # no two separators are alike, so nothing matches across them
            self.replies.extend([*reply, -self._number])
