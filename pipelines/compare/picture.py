"""Throughput and time per token against concurrency, one line an arm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from pipelines.compare.arms import PLAIN, SHOWN, engine_of

COLOURS = {"specdecode": "#1769aa", "vLLM": "#c2571a", "llama.cpp": "#5b7f3a"}
STYLES = ("-", "--", ":")
GRID = "#d5dbe1"


def draw(report: dict[str, Any], path: Path) -> None:
    """Write the picture.

    Args:
        report: content of reports/engines.json.
        path: where the PNG goes.
    """
    with mpl.rc_context({"font.size": 9}):
        figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
        _lines(axes[0], report, "output tokens per second (more is better)", _tokens_per_s)
        _lines(axes[1], report, "time per output token, p50, ms (less is better)", _tpot_ms)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)
        plt.close(figure)


def _tokens_per_s(point: dict[str, Any]) -> float | None:
    value: float | None = point["output_tokens_per_s"]
    return value


def _tpot_ms(point: dict[str, Any]) -> float | None:
    value = point["tpot_s"].get("p50")
    return None if value is None else 1000 * value


def _lines(axis: Axes, report: dict[str, Any], title: str, read: Any) -> None:
    drawn = dict.fromkeys(PLAIN, 0)
    for arm, drafts in SHOWN.items():
        points = [p for p in report["points"] if p["arm"] == arm and read(p) is not None]
        engine = engine_of(arm)
        style = STYLES[drawn[engine] % len(STYLES)]
        drawn[engine] += 1
        if points:
            x, y = [p["concurrency"] for p in points], [read(p) for p in points]
            label = f"{engine}: {drafts}"
            axis.plot(x, y, style, marker="o", color=COLOURS[engine], label=label)
    loads = sorted({p["concurrency"] for p in report["points"]})
    axis.set_xscale("log", base=2)
    axis.set_xticks(loads, [str(load) for load in loads])
    axis.set_ylim(bottom=0)
    axis.set_xlabel("concurrency")
    axis.set_title(title, loc="left", fontweight="bold", fontsize=10)
    axis.grid(color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
