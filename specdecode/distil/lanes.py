"""Many conversations written side by side, each lane refilled as soon as its text has ended.

A step costs little more for a hundred rows than for ten, so what counts is that no lane is ever
empty: one that ends takes up the next conversation at once. A conversation is one text that grows;
its template's tokens are fed to the target, its other tokens are drawn, so turn and reply need no
second run. The law behind each drawn token is kept when it is drawn, and nothing is scored again.

Attention is charged by the longest text of a group of neighbours. Lanes therefore stay in order,
long texts before short ones, roughly: a lane that ends is filled from the group behind it, that
gap from the next group, and the new text, the shortest of all, takes the last gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from specdecode.distil.drawing import Drawn, draw
from specdecode.distil.texts import CONTEXT, GIVEN_TURN, REPLY, WRITTEN_TURN, Conversation
from specdecode.models import CausalNetwork, KVCache
from specdecode.models.cache import RowState
from specdecode.models.prefill import read_tokens

_GROUPS = 4
_SLOTS = 65_536
"""Of keys and values, over all lanes: fewer lanes where texts are long."""


@dataclass(frozen=True)
class Script:
    """What a conversation is made by.

    Attributes:
        before: the template's tokens before the user's turn; at least one.
        user: the user's turn; None if the target is to write it.
        between: the template's tokens from there to the reply.
        user_tokens: longest turn to be written.
        reply_tokens: longest reply.
        temperature: of what is drawn.
        coins: float64 `[user_tokens + reply_tokens, 2]`, two a drawn token.
    """

    before: tuple[int, ...]
    user: tuple[int, ...] | None
    between: tuple[int, ...]
    user_tokens: int
    reply_tokens: int
    temperature: float
    coins: NDArray[np.float64]

    @property
    def longest(self) -> int:
        """Tokens the conversation may come to have."""
        turn = self.user_tokens if self.user is None else len(self.user)
        return len(self.before) + turn + len(self.between) + self.reply_tokens


class Place(NamedTuple):
    """Where the law behind a token stands: in which step, in which row of it."""

    step: int
    row: int


@dataclass
class Lane:
    """A conversation as it grows.

    Attributes:
        number: of its script.
        script: what it is made by.
        tokens: all that are known; the template's stand there before they are fed.
        kinds: theirs, see `texts`.
        fed: how many of them the target has read.
        places: of the laws behind those that were drawn and stayed.
        drawn: coins used.
        written: tokens of the turn or reply that is being written.
        has_ended: whether nothing more is written.
    """

    number: int
    script: Script
    tokens: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    fed: int = 0
    places: list[Place] = field(default_factory=list)
    drawn: int = 0
    written: int = 0
    has_ended: bool = False

    def __post_init__(self) -> None:
        self._add(self.script.before, CONTEXT)
        if self.script.user is not None:
            self._add(self.script.user, GIVEN_TURN)
            self._add(self.script.between, CONTEXT)
        self.fed = len(self.tokens) - 1
        self._replies = self.script.user is not None

    @property
    def is_drawing(self) -> bool:
        """Whether the token after the next one to be fed is not known yet."""
        return self.fed == len(self.tokens) - 1

    def take(self, token: int, place: Place, ends: frozenset[int]) -> None:
        """Go on by one step: the next token was fed, and `token` drawn after it."""
        was_drawing = self.is_drawing
        self.fed += 1
        if not was_drawing:
            return
        self.drawn += 1
        if self._replies:
            self._write(token, REPLY, place)
            self.has_ended = token in ends or self.written == self.script.reply_tokens
            return
        if token not in ends:
            self._write(token, WRITTEN_TURN, place)
        if token in ends or self.written == self.script.user_tokens:
            self.has_ended = not self.written
            self._replies, self.written = True, 0
            self._add(self.script.between, CONTEXT)
            if self.fed == len(self.tokens):  # nothing stands between: the last token is fed again
                self.fed -= 1

    def _write(self, token: int, kind: int, place: Place) -> None:
        self._add((token,), kind)
        self.places.append(place)
        self.written += 1

    def _add(self, tokens: Sequence[int], kind: int) -> None:
        self.tokens += tokens
        self.kinds += [kind] * len(tokens)


def write_conversations(
    network: CausalNetwork,
    scripts: Sequence[Script],
    ends: frozenset[int],
    *,
    lanes: int,
    kept: int,
    is_enough: Callable[[], bool] = lambda: False,
) -> list[Conversation | None]:
    """Let the target write.

    Args:
        network: the target.
        scripts: of the conversations.
        ends: tokens that end a turn or a reply; the reply keeps its own.
        lanes: most conversations at a time.
        kept: most likely tokens whose probabilities are kept.
        is_enough: when it says so, no further conversation is begun.

    Returns:
        One for each script that was begun, in order; None where the target had nothing to say for
        the user.
    """
    if not scripts:
        return []
    capacity = max(script.longest for script in scripts)
    lanes = min(lanes, len(scripts), max(1, _SLOTS // capacity))
    desk = _Desk(network, scripts, lanes, capacity, is_enough)
    steps: list[Drawn] = []
    ended: dict[int, Lane] = {}
    with torch.inference_mode():
        while desk.lanes:
            drawn = desk.step(kept)
            for row, token in enumerate(drawn.tokens.tolist()):
                desk.lanes[row].take(token, Place(len(steps), row), ends)
            steps.append(drawn._replace(tokens=torch.empty(0)))
            ended.update((lane.number, lane) for lane in desk.lanes if lane.has_ended)
            desk.refill()
        return [_conversation(ended[number], steps) for number in sorted(ended)]


class _Desk:
    """The lanes at work and their cache."""

    def __init__(
        self,
        network: CausalNetwork,
        scripts: Sequence[Script],
        lanes: int,
        capacity: int,
        is_enough: Callable[[], bool],
    ) -> None:
        self._is_enough = is_enough
        self.network, self.cache = network, KVCache(lanes, capacity)
        self.lanes: list[Lane] = []
        self._coming: Iterator[Lane] = (Lane(i, script) for i, script in enumerate(scripts))
        self._read: tuple[list[int], RowState] = ([], {})
        with torch.inference_mode():
            for row in range(lanes):
                self.lanes.append(next(self._coming))
                self._begin(row)

    def step(self, kept: int) -> Drawn:
        """Feed every lane its next token, and draw what follows."""
        device = self.network.device
        fed = torch.tensor([[lane.tokens[lane.fed]] for lane in self.lanes], device=device)
        logits = self.network.forward(fed, [lane.fed for lane in self.lanes], self.cache)[:, 0]
        temperatures = torch.tensor([lane.script.temperature for lane in self.lanes])
        coins = np.stack([lane.script.coins[lane.drawn] for lane in self.lanes])
        return draw(logits, temperatures.to(device), torch.from_numpy(coins).to(device), kept)

    def refill(self) -> None:
        """Give lanes that have ended to the next conversations, or close them."""
        rows = list(range(len(self.lanes)))
        row = 0
        while row < len(self.lanes):
            if not self.lanes[row].has_ended:
                row += 1
                continue
            gap = self._move_up(row, rows)
            following = None if self._is_enough() else next(self._coming, None)
            if following is not None:
                self.lanes[gap] = following
                rows[gap] = -1
            else:
                last = self.lanes.pop()
                source = rows.pop()
                if gap < len(self.lanes):
                    self.lanes[gap], rows[gap] = last, source
        begun = [row for row, source in enumerate(rows) if source < 0]
        for row in begun:
            rows[row] = row
        if rows != list(range(self.cache.batch)):
            self.cache.keep_rows(rows)
        for row in begun:
            self._begin(row)

    def _move_up(self, gap: int, rows: list[int]) -> int:
        """Close a gap from the groups behind it; returns where the gap is then."""
        size = -(-len(self.lanes) // _GROUPS)
        for first in range((gap // size + 1) * size, len(self.lanes), size):
            group = range(first, min(first + size, len(self.lanes)))
            going_on = [row for row in group if not self.lanes[row].has_ended and rows[row] >= 0]
            if going_on:
                longest = max(going_on, key=lambda row: self.lanes[row].fed)
                self.lanes[gap], rows[gap] = self.lanes[longest], rows[longest]
                gap = longest
        return gap

    def _begin(self, row: int) -> None:
        """Put what a new lane has read into its row. Neighbours mostly begin alike."""
        lane = self.lanes[row]
        read = lane.tokens[: lane.fed]
        if not read:
            return
        if self._read[0] != read:
            alone = KVCache(1, len(read))
            read_tokens(self.network, [read], [0], alone)
            self._read = (read, alone.copy_row(0, len(read)))
        self.cache.set_row(row, self._read[1])


def _conversation(lane: Lane, steps: Sequence[Drawn]) -> Conversation | None:
    if not lane.places:
        return None
    tokens = torch.tensor(lane.tokens)
    laws = [[steps[p.step][part][p.row] for p in lane.places] for part in (1, 2, 3)]
    ids, probs, tail = (torch.stack(rows).cpu() for rows in laws)
    return Conversation(tokens, torch.tensor(lane.kinds, dtype=torch.uint8), ids, probs, tail)
