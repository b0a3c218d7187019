"""Who is measured when: drawn from the seed, so that a resumed sweep goes on in the same order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from specdecode.workload.split import seeded_hash

T = TypeVar("T")


def turns(items: Sequence[T], rounds: int, *key: object) -> list[list[T]]:
    """An order for each round.

    One random order, begun at another place in each round, and the places drawn too: within as many
    rounds as there are items, nobody is at the same place twice. So a machine that becomes slower
    during a round, or from round to round, is slower for all alike.

    Args:
        items: to be put in order.
        rounds: how many orders.
        key: everything that the draw depends on.
    """
    draw = random.Random(seeded_hash("sweep order", *key))  # noqa: S311 - an order, not a secret
    base = list(items)
    draw.shuffle(base)
    starts = list(range(len(base)))
    draw.shuffle(starts)
    return [_from(base, starts[number % len(base)]) for number in range(rounds)]


def _from(items: list[T], start: int) -> list[T]:
    return items[start:] + items[:start]
