"""Simulated chances as bars: in a terminal, or as an SVG file that needs no library."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from specdecode.governance.power import LEVEL, Simulation
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


def bars(simulation: Simulation, wanted: float) -> str:
    """One line for each status, with its interval; a mark on the line of GO where `wanted` is."""
    lines = []
    for status in _ORDER:
        chance = simulation.chances[status]
        filled = round(chance.rate * _WIDTH)
        line = list("█" * filled + "·" * (_WIDTH - filled))
        if status is Status.GO:
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
    left, width, step, top = 190, 480, 46, 40
    height = top + step * len(simulations) + 54
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {height}" '
        'role="img" font-family="sans-serif" font-size="13">',
        f"<title>{escape(_alt(simulations))}</title>",
    ]
    for place, (status, colour) in enumerate(_COLOURS.items()):
        x = left + 130 * place
        parts.append(f'<rect x="{x}" y="10" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="21">{status.value.replace("_", " ")}</text>')
    for row, (name, simulation) in enumerate(simulations.items()):
        y = top + step * row
        label = escape(name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…")
        parts.append(f'<text x="{left - 10}" y="{y + 19}" text-anchor="end">{label}</text>')
        parts.extend(_bar(simulation, left, width, y))
    bottom = top + step * len(simulations)
    at = left + wanted * width
    parts.append(
        f'<line x1="{at:.1f}" y1="{top - 6}" x2="{at:.1f}" y2="{bottom}" stroke="#222" '
        'stroke-dasharray="4 3"/>'
    )
    for tick in range(0, 101, 25):
        x = left + width * tick // 100
        parts.append(f'<text x="{x}" y="{bottom + 14}" text-anchor="middle">{tick} %</text>')
    parts.append(
        f'<text x="10" y="{bottom + 36}">share of runs; whisker: {LEVEL:.0%} interval of the '
        f"chance of GO; dashed: wanted, {wanted:.0%}</text></svg>\n"
    )
    return "\n".join(parts)


def _bar(simulation: Simulation, left: int, width: int, y: int) -> list[str]:
    parts, x = [], float(left)
    for status in _ORDER:
        share = simulation.chances[status].rate * width
        if share:
            colour = _COLOURS[status]
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{share:.1f}" height="28" fill="{colour}"/>'
            )
        x += share
    go = simulation.chances[Status.GO]
    low, high = left + go.low * width, left + go.high * width
    path = f"M{low:.1f} {y + 9}v10M{low:.1f} {y + 14}H{high:.1f}M{high:.1f} {y + 9}v10"
    return [*parts, f'<path d="{path}" stroke="#111" stroke-width="1.5" fill="none"/>']


def _alt(simulations: Mapping[str, Simulation]) -> str:
    told = (
        f"{name}: GO in {found.chances[Status.GO].rate:.0%} of {found.runs} runs"
        for name, found in simulations.items()
    )
    return "Chance of each answer. " + "; ".join(told)
