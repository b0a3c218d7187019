"""Rows of unlike length attend in groups, none of which is padded to the longest row of the batch.

Attention over a padded batch costs rows × longest row. One long reply among short ones would make
all of them pay for its length in every step. Neighbouring rows are therefore grouped so that slots
looked at, plus what each call costs by itself, are fewest.
"""

from __future__ import annotations

Span = tuple[slice, int]
"""Consecutive rows, and the slots they look at."""


def row_spans(ends: list[int], call: float) -> list[Span]:
    """The cheapest division of a batch's rows into consecutive groups.

    Args:
        ends: slots each row looks at, length B.
        call: cost of one more group, in slots of one row.
    """
    longest, rows = max(ends), len(ends)
    if longest * rows - sum(ends) <= call:  # all there is to save
        return [(slice(0, rows), longest)]
    # cheapest[j]: cost of the first j rows, and where their last group begins.
    cheapest: list[tuple[float, int]] = [(0.0, 0)]
    for stop in range(1, rows + 1):
        slots, best = 0, (float("inf"), 0)
        for first in range(stop - 1, -1, -1):
            slots = max(slots, ends[first])
            best = min(best, (cheapest[first][0] + slots * (stop - first) + call, first))
        cheapest.append(best)
    spans: list[Span] = []
    stop = rows
    while stop:
        first = cheapest[stop][1]
        spans.append((slice(first, stop), max(ends[first:stop])))
        stop = first
    return spans[::-1]
