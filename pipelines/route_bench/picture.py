"""Added latency of every way: the median, and how far the 99th percentile reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from pipelines.route_bench.added import MEDIAN_LIMIT_MS, P99_LIMIT_MS
from pipelines.route_bench.arms import ARMS, DIRECT, ROUTED
from pipelines.route_bench.page import TIMES
from pipelines.route_bench.servers import LITELLM

ROUTER, THEIRS, NOISE = "#1769aa", "#c2571a", "#5f6773"
GRID, LIMIT = "#d5dbe1", "#b3261e"


def draw(report: dict[str, Any], path: Path) -> None:
    """Write the picture: a row for each rate, the highest first.

    Args:
        report: content of reports/router.json.
        path: where the PNG goes.
    """
    rates = sorted({p["rate"] for p in report["points"]}, reverse=True)
    with mpl.rc_context({"font.size": 9}):
        figure, axes = plt.subplots(
            len(rates),
            len(TIMES),
            figsize=(12, 0.8 + 2.8 * len(rates)),
            layout="constrained",
            sharey=True,
            squeeze=False,
        )
        for row, rate in zip(axes, rates, strict=True):
            for axis, ((kind, time), title) in zip(row, TIMES.items(), strict=True):
                case = {"rate": rate, "kind": kind, "time": time}
                _panel(axis, report, case, f"{rate:g}/s: {title}")
        first = axes[0][0]
        first.set_yticks(range(len(_shown())), [ARMS[arm].shown for arm in _shown()])
        first.set_ylim(len(_shown()) - 0.5, -0.8)  # the first at the top, below the limits' names
        figure.suptitle(
            "latency added to the server's own, ms: ● median, ▏p99; bars are intervals over rounds",
            x=0.01,
            ha="left",
            fontweight="bold",
            fontsize=10,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, format="png")
        plt.close(figure)


def _shown() -> list[str]:
    return [arm for arm in ARMS if arm != DIRECT]


def _panel(axis: Axes, report: dict[str, Any], case: dict[str, Any], title: str) -> None:
    found = {p["arm"]: p["added_ms"] for p in report["points"] if case.items() <= p.items()}
    found = {arm: added for arm, added in found.items() if added is not None}
    most = _most(found)
    for place, arm in enumerate(_shown()):
        if arm in found:
            _one(axis, place, found[arm], most, _colour(arm))
    # One below the other: where the axis is long, the two limits are close together.
    for limit, name, height in ((MEDIAN_LIMIT_MS, "median", 0.99), (P99_LIMIT_MS, "p99", 0.94)):
        axis.axvline(limit, color=LIMIT, linewidth=0.8, linestyle="--")
        axis.annotate(
            f" {name} limit",
            (limit, height),
            xycoords=("data", "axes fraction"),
            va="top",
            color=LIMIT,
            fontsize=7,
        )
    axis.axvline(0, color=NOISE, linewidth=0.8)
    axis.set_xlim(right=most)
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel("ms")
    axis.grid(color=GRID, linewidth=0.6, axis="x")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _most(found: dict[str, Any]) -> float:
    """Where the axis ends: a proxy that cannot keep up would leave no room for the others."""
    seen = [
        end
        for arm, added in found.items()
        if arm in ROUTED
        for name in ("median", "p99")
        for end in (added[name]["high"], added[name]["estimate"])
        if end is not None
    ]
    most: float = max([P99_LIMIT_MS, *seen])
    return 1.15 * most


def _one(axis: Axes, place: int, added: dict[str, Any], most: float, colour: str) -> None:
    beyond = []
    for name, marker in (("median", "o"), ("p99", "|")):
        found = added[name]
        if found["estimate"] is None:
            continue
        if found["estimate"] > most:
            beyond.append(f"{name} {found['estimate']:.0f}")
            continue
        if found["low"] is not None:
            axis.hlines(place, found["low"], found["high"], color=colour, linewidth=3, alpha=0.4)
        size = 6 if marker == "o" else 12
        axis.plot(found["estimate"], place, marker, color=colour, markersize=size)
    if beyond:
        text = f"{', '.join(beyond)} →"
        axis.annotate(text, (most, place), color=colour, ha="right", va="center", fontsize=8)


def _colour(arm: str) -> str:
    if arm == LITELLM:
        return THEIRS
    return ROUTER if arm in ROUTED else NOISE
