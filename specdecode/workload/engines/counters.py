"""How far a server's counters moved between two readings, and when that cannot be said.

A counter that starts again from zero makes a difference that is too small or negative. Restarts are
seen in the process's start time, in the counters' own creation times, in a series that went
backwards or vanished; any of them makes every difference of the interval unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from specdecode.workload.engines.metrics_text import PROCESS_START, Labels, Scrape
from specdecode.workload.engines.unknown import Count, Unknown, count

Names = tuple[str, ...]
"""Names one counter has had, the newest first, with or without `_total`."""


def restarted(
    before: Scrape, after: Scrape, counters: Iterable[Names], *, absent_is_zero: bool = False
) -> str | None:
    """Why the counters of two readings do not belong to one life of the server, or None.

    Args:
        before: the earlier reading.
        after: the later one.
        counters: names of those to look at.
        absent_is_zero: whether this engine shows a counter only once it has counted something.
    """
    if _gauge_changed(PROCESS_START, before, after):
        return "the server's process was started again between the readings"
    for names in counters:
        try:
            name = _shared(names, before, after, absent_is_zero=absent_is_zero)
        except LookupError as error:
            return str(error)
        if name is None or name not in before:
            continue
        if _gauge_changed(f"{name.removesuffix('_total')}_created", before, after):
            return f"{name} was created again between the readings: the server was restarted"
        for labels, was in before.series[name].items():
            now = after.series[name].get(labels)
            if now is None:
                return f"{_shown(name, labels)} vanished between the readings"
            if now < was:
                return f"{_shown(name, labels)} went back from {was:g} to {now:g}: it was reset"
    return None


def moved(
    before: Scrape,
    after: Scrape,
    names: Names,
    *,
    absent_is_zero: bool = False,
    where: Callable[[dict[str, str]], bool] = lambda _: True,
) -> Count:
    """How far a counter moved, summed over its labels. Ask `restarted` first.

    Args:
        before: the earlier reading.
        after: the later one.
        names: names of the counter.
        absent_is_zero: whether this engine shows the counter only once it has counted something.
        where: which of the series to sum over, by their labels.
    """
    try:
        name = _shared(names, before, after, absent_is_zero=absent_is_zero)
    except LookupError as error:
        return Unknown(str(error))
    if name is None:
        return Unknown(f"no metric {' or '.join(names)}")
    then = before.series.get(name, {})
    chosen = {labels: value for labels, value in after.series[name].items() if where(dict(labels))}
    # A series that is new counts from zero: its labels occurred for the first time.
    differences = [value - then.get(labels, 0.0) for labels, value in chosen.items()]
    if not all(map(math.isfinite, differences)):
        return Unknown(f"{name} is not a finite number in both readings")
    return count(sum(differences), f"the difference of {name}")


def _shared(
    names: Names, before: Scrape, after: Scrape, *, absent_is_zero: bool = False
) -> str | None:
    """The name under which both readings have a counter; None if neither has it.

    Raises:
        LookupError: only one has it, or they have it under different names.
    """
    was = next((found for n in names if (found := before.counter(n)) is not None), None)
    now = next((found for n in names if (found := after.counter(n)) is not None), None)
    if was is None and now is not None and (absent_is_zero or before.at_zero(now)):
        return now
    if was != now:
        raise LookupError(
            f"the earlier reading has {was or 'no ' + names[0]}, the later {now or 'none'}: "
            "another server or version answered"
        )
    return now


def _gauge_changed(name: str, before: Scrape, after: Scrape) -> bool:
    was, now = before.series.get(name, {}), after.series.get(name, {})
    return any(labels in now and now[labels] != value for labels, value in was.items())


def _shown(name: str, labels: Labels) -> str:
    return name + ("{" + ", ".join(f"{k}={v}" for k, v in labels) + "}" if labels else "")
