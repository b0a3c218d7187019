"""Steps by number of accepted tokens, from counters per draft position.

A step that accepts the token at a position accepts all before it. With S steps and p[i] of them
accepting position i, h[0] = S − p[0] and h[j] = p[j−1] − p[j] steps accepted exactly j tokens.
"""

from __future__ import annotations

import re
from itertools import pairwise

from specdecode.workload.engines.counters import Names, moved, restarted
from specdecode.workload.engines.metrics_text import Scrape
from specdecode.workload.engines.speculation import Histogram
from specdecode.workload.engines.unknown import Count, Unknown

POSITION = "position"
"""Label of the counters per draft position, from 0."""


def histogram_by_position(
    before: Scrape, after: Scrape, names: Names, steps: Count, accepted: Count, *, appear: bool
) -> Histogram:
    """The histogram between two readings.

    Args:
        before: the earlier reading.
        after: the later one.
        names: names of the counter per position; none if the engine has none.
        steps: steps between the readings.
        accepted: tokens accepted between them; what the positions must add up to.
        appear: whether a position is shown only once something was accepted there.
    """
    if isinstance(steps, Unknown):
        return Unknown(f"no histogram without the number of steps ({steps.reason})")
    found = next((f for n in names if (f := after.counter(n)) is not None), None)
    if found is None and appear and accepted == 0:
        return (steps,)
    if found is None:
        return Unknown(f"no counters per draft position: {' or '.join(names) or 'not offered'}")
    why = restarted(before, after, [names], absent_is_zero=appear)
    reached = Unknown(why) if why is not None else _reached(before, after, found, appear=appear)
    return reached if isinstance(reached, Unknown) else _checked(found, [steps, *reached], accepted)


def _reached(before: Scrape, after: Scrape, name: str, *, appear: bool) -> list[int] | Unknown:
    """Steps that accepted each position, from 0."""
    texts = {labels.get(POSITION, "") for labels in after.labels(name)}
    if not all(re.fullmatch("[0-9]{1,4}", text) for text in texts):
        return Unknown(f"{name} has a position that is no number")
    if {int(text) for text in texts} != set(range(len(texts))):
        return Unknown(f"{name} does not name every position from 0")
    reached = []
    for place in range(len(texts)):
        at_place = _at(before, after, name, place, appear=appear)
        if isinstance(at_place, Unknown):
            return at_place
        reached.append(at_place)
    return reached


def _at(before: Scrape, after: Scrape, name: str, place: int, *, appear: bool) -> Count:
    def here(labels: dict[str, str]) -> bool:
        return int(labels[POSITION]) == place

    return moved(before, after, (name,), absent_is_zero=appear, where=here)


def _checked(name: str, reached: list[int], accepted: Count) -> Histogram:
    """From the steps and how many of them reached each position."""
    if any(later > earlier for earlier, later in pairwise(reached)):
        return Unknown(f"{name}: more steps at a position than at the one before it")
    if sum(reached[1:]) != accepted:
        return Unknown(f"{name} adds up to {sum(reached[1:])} accepted tokens, not {accepted}")
    return tuple(earlier - later for earlier, later in pairwise([*reached, 0]))
