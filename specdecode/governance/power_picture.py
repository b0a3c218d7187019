"""Simulated chances as bars: in a terminal, or as an SVG file that needs no library."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from specdecode.governance.power_ladder import Ladder
from specdecode.governance.power_outcome import LEVEL, Chance, Simulation
from specdecode.governance.verdict import Status

_WIDTH = 40
_LONGEST_NAME = 25  # what fits beside the bars; the title has all of it
_ORDER = (Status.GO, Status.INCONCLUSIVE, Status.NO_GO, Status.INVALID)
_COLOURS = {
    Status.GO: "#2a7f5f",
    Status.INCONCLUSIVE: "#d9a441",
    Status.NO_GO: "#b5432f",
    Status.INVALID: "#7a4a8f",
}
# Lengths in the picture's own units.
_LEFT, _BAR, _GAP, _CURVE = 190, 480, 50, 280
_STEP, _TOP, _HEAD, _THICK = 46, 40, 30, 28
_LEGEND = (0, 60, 220, 320)


@dataclass(frozen=True)
class Row:
    """One bar of a picture.

    Attributes:
        name: beside it.
        chances: by status.
        timing: what tells when runs were decided; None draws nothing.
        asked: whether `wanted` is asked of it.
    """

    name: str
    chances: Mapping[Status, Chance]
    timing: Simulation | None = None
    asked: bool = True


def bars(chances: Mapping[Status, Chance], wanted: float | None) -> str:
    """One line for each status, with its interval; a mark on the line of GO where `wanted` is."""
    lines = []
    for status in _ORDER:
        chance = chances[status]
        filled = round(chance.rate * _WIDTH)
        line = list("█" * filled + "·" * (_WIDTH - filled))
        if status is Status.GO and wanted is not None:
            line[min(_WIDTH - 1, round(wanted * _WIDTH))] = "┃"
        lines.append(
            f"{status.value:<12} {''.join(line)} {chance.rate:6.1%}  "
            f"({chance.low:.1%} to {chance.high:.1%})"
        )
    return "\n".join(lines)


def svg(simulations: Mapping[str, Simulation], wanted: float) -> str:
    """One stacked bar a scenario, the interval of GO as a whisker, `wanted` as a dashed line.

    Args:
        simulations: by name of the scenario.
        wanted: the chance of GO the plan asks for.
    """
    return _drawn({"": [Row(name, found.chances) for name, found in simulations.items()]}, wanted)


def ladder_svg(ladders: Mapping[str, Ladder], wanted: float, beside: Collection[str] = ()) -> str:
    """For each scenario a bar a stage, beside it the share of runs decided against n.

    Args:
        ladders: by name of the scenario.
        wanted: the chance of GO the plan asks for.
        beside: scenarios of which it asks for none, such as harm.
    """
    groups = {}
    for scenario, found in ladders.items():
        asked = scenario not in beside
        rows = [Row(name, at.chances, at, asked=asked) for name, at in found.stages.items()]
        if found.walks is not None and len(rows) > 1:
            rows.append(Row("all in turn", found.walks, asked=False))
        groups[scenario] = rows
    return _drawn(groups, wanted)


def _drawn(groups: Mapping[str, Sequence[Row]], wanted: float) -> str:
    timed = [row.timing for rows in groups.values() for row in rows if row.timing is not None]
    decades = _decades(timed)
    width = _LEFT + _BAR + (_GAP + _CURVE if timed else 0) + 30
    body: list[str] = []
    y = _TOP
    for group, rows in groups.items():
        if group:
            body.append(f'<text x="10" y="{y + 18}" font-weight="bold">{escape(group)}</text>')
            y += _HEAD
        start = y
        for row in rows:
            body += [_label(row.name, y), *_bar(row.chances, y)]
            if row.timing is not None:
                body += _curve(row.timing, decades, y)
            y += _STEP
        if asked := sum(row.asked for row in rows):
            at, end = _LEFT + wanted * _BAR, start + _STEP * asked
            body.append(
                f'<line x1="{at:.1f}" y1="{start - 6}" x2="{at:.1f}" y2="{end - 8}" stroke="#222" '
                'stroke-dasharray="4 3"/>'
            )
    body += _axis(y)
    note = f"share of runs; whisker: {LEVEL:.0%} interval of the chance of GO; dashed: wanted, "
    body.append(f'<text x="10" y="{y + 36}">{note}{wanted:.0%}</text>')
    if any(found.most is not None for found in timed):
        body += _scale(decades, y)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 54}" '
        'role="img" font-family="sans-serif" font-size="13">',
        f"<title>{escape(_alt(groups))}</title>",
    ]
    return "\n".join([*head, *_legend(), *body, "</svg>\n"])


def _legend() -> list[str]:
    parts = []
    for place, (status, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + _LEGEND[place]
        parts.append(f'<rect x="{x}" y="10" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="21">{status.value.replace("_", " ")}</text>')
    return parts


def _axis(y: float) -> list[str]:
    return [
        f'<text x="{_LEFT + _BAR * tick // 100}" y="{y + 14}" text-anchor="middle">{tick} %</text>'
        for tick in range(0, 101, 25)
    ]


def _label(name: str, y: float) -> str:
    short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    return f'<text x="{_LEFT - 10}" y="{y + 19}" text-anchor="end">{escape(short)}</text>'


def _bar(chances: Mapping[Status, Chance], y: float) -> list[str]:
    parts, x = [], float(_LEFT)
    for status in _ORDER:
        share = chances[status].rate * _BAR
        if share:
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{share:.1f}" height="{_THICK}" '
                f'fill="{_COLOURS[status]}"/>'
            )
        x += share
    go = chances[Status.GO]
    low, high = _LEFT + go.low * _BAR, _LEFT + go.high * _BAR
    path = f"M{low:.1f} {y + 9}v10M{low:.1f} {y + 14}H{high:.1f}M{high:.1f} {y + 9}v10"
    return [*parts, f'<path d="{path}" stroke="#111" stroke-width="1.5" fill="none"/>']


def _curve(found: Simulation, decades: int, y: float) -> list[str]:
    """Shares of runs that had said GO, and above them NO_GO, against the units used."""
    left = _LEFT + _BAR + _GAP
    if found.most is None:
        told = f"one look at {found.expected_n:g} {found.unit}s"
        return [f'<text x="{left}" y="{y + 19}" fill="#444">{escape(told)}</text>']

    def x(n: int) -> str:
        return f"{left + _CURVE * math.log10(n) / decades:.1f}"

    end = x(found.most)
    parts = [
        f'<path d="M{left} {y}H{end}V{y + _THICK}H{left}Z" fill="#ececec" class="curve"/>',
        f'<path d="M{end} {y - 3}V{y + _THICK + 3}" stroke="#222"/>',
    ]
    # GO is drawn over both, so that what is left of NO_GO above it is its own share.
    for times, status in ((found.decided_at(), Status.NO_GO),
                          (found.decided_at(Status.GO), Status.GO)):  # fmt: skip
        path = [f"M{left} {y + _THICK:.1f}"]
        for count, n in enumerate(times, 1):
            path.append(f"H{x(n)}V{y + _THICK * (1 - count / found.runs):.1f}")
        path.append(f"H{end}V{y + _THICK:.1f}Z")
        if times:
            parts.append(f'<path d="{"".join(path)}" fill="{_COLOURS[status]}"/>')
    middle = found.n_for(0.5)
    told = f"half by {middle}" if middle is not None else "fewer than half before the end"
    parts.append(f'<text x="{left}" y="{y + _THICK + 12}" font-size="10" fill="#444">{told}</text>')
    return parts


def _decades(timed: Sequence[Simulation]) -> int:
    """Powers of ten that hold every number of units."""
    most = max((found.most or 1 for found in timed), default=1)
    return max(1, math.ceil(math.log10(most)))


def _scale(decades: int, y: float) -> list[str]:
    left = _LEFT + _BAR + _GAP
    parts = [
        f'<text x="{left}" y="21">share decided, by units used</text>',
        f'<text x="{left}" y="{y + 36}" font-size="11">line at the end: no more may be used</text>',
    ]
    for power in range(decades + 1):
        at, units = left + _CURVE * power / decades, 10**power
        told = f"{units // 1000}k" if units >= 1000 else str(units)
        parts.append(f'<text x="{at:.1f}" y="{y + 14}" text-anchor="middle">{told}</text>')
    return parts


def _alt(groups: Mapping[str, Sequence[Row]]) -> str:
    told = []
    for group, rows in groups.items():
        for row in rows:
            go = row.chances[Status.GO]
            runs = sum(chance.count for chance in row.chances.values())
            name = f"{group}, {row.name}" if group else row.name
            told.append(f"{name}: GO in {go.rate:.0%} of {runs} runs")
    return "Chance of each answer. " + "; ".join(told)
