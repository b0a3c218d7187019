"""One picture of the bench: what speculation buys, what verification costs, how both grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

INK, GRID = "#1f2933", "#d5dbe1"
OURS, OTHERS, SECOND = "#1769aa", "#8895a3", "#c2571a"


def draw(report: dict[str, Any], path: Path) -> None:
    """Write the picture.

    Args:
        report: content of reports/bench.json.
        path: where the PNG goes.
    """
    with mpl.rc_context({"font.size": 9, "text.color": INK, "axes.labelcolor": INK}):
        figure, axes = plt.subplots(2, 2, figsize=(12, 8.5), layout="constrained")
        _arms(axes[0][0], report["decode"])
        _growth(axes[0][1], report["growth"]["cells"])
        _verification(axes[1][0], report["verify"])
        _efficiency(axes[1][1], report["block_efficiency"]["table"])
        machine = report["machine"]["hardware"]
        gpu = f", {machine['gpus'][0]}" if machine["gpus"] else ""
        figure.suptitle(
            f"{machine['cpu']}, {machine['cores']} cores{gpu} · "
            f"{report['decode']['setting']['dtype']} · {report['made_at'][:10]}",
            fontsize=10,
        )
        figure.savefig(path, dpi=110)
        plt.close(figure)


def _plain_axes(axis: Axes, title: str, x: str, y: str) -> None:
    axis.set_title(title, loc="left", fontweight="bold", fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _arms(axis: Axes, decode: dict[str, Any]) -> None:
    names = list(decode["arms"])[::-1]
    for offset, (which, color) in enumerate((("greedy", OURS), ("sampled", SECOND))):
        values = [decode["arms"][name][which]["ms_per_token"] for name in names]
        places = [i + 0.2 - 0.4 * offset for i in range(len(names))]
        axis.barh(places, values, height=0.36, color=color, label=which)
        for place, value in zip(places, values, strict=True):
            axis.text(value, place, f" {value:.1f}", va="center", fontsize=8)
    axis.set_yticks(range(len(names)), names)
    _plain_axes(axis, "Batch 1: time per token (shorter is better)", "ms per token", "")
    axis.legend(frameon=False)


def _growth(axis: Axes, cells: list[dict[str, Any]]) -> None:
    batches = sorted({c["batch"] for c in cells})
    colors = plt.get_cmap("viridis")
    for index, batch in enumerate(batches):
        mine = [c for c in cells if c["batch"] == batch]
        color = colors(index / max(1, len(batches)))
        gammas = [c["gamma"] for c in mine]
        axis.plot(gammas, [c["measured"] for c in mine], "o-", color=color, label=f"batch {batch}")
        axis.plot(gammas, [c["predicted_by_passes"] for c in mine], ":", color=color)
    axis.axhline(1, color=INK, linewidth=0.8)
    _plain_axes(
        axis, "Speed-up over plain decoding (dotted: predicted from passes)", "γ", "times plain"
    )
    axis.legend(frameon=False, ncols=2)


def _verification(axis: Axes, verify: dict[str, Any]) -> None:
    cases = verify["cases"]
    labels = [f"{c['vocabulary'] // 1000}k, {c['batch']}, γ {c['gamma']}" for c in cases]
    for offset, (name, color) in enumerate((("token", OTHERS), ("block", OURS))):
        places = [i - 0.2 + 0.4 * offset for i in range(len(cases))]
        axis.bar(places, [c[f"{name}_ms"] for c in cases], width=0.38, color=color, label=name)
    axis.axhline(verify["target_pass_ms"], color=SECOND, linewidth=1)
    axis.text(0, verify["target_pass_ms"] * 1.1, "one target pass, batch 1", color=SECOND)
    axis.set_yscale("log")
    axis.set_xticks(range(len(cases)), labels, rotation=40, ha="right")
    _plain_axes(axis, "Verification alone", "vocabulary, batch, γ", "ms a call")
    axis.legend(frameon=False)


def _efficiency(axis: Axes, cells: list[dict[str, Any]]) -> None:
    shown = [c for c in cells if c["block_vs_token"] and c["temperature"] > 0]
    names = list(dict.fromkeys(c["drafter"] for c in shown))
    colors = plt.get_cmap("tab10")
    for index, name in enumerate(names):
        mine = [c for c in shown if c["drafter"] == name]
        ratios = [c["block_vs_token"] for c in mine]
        axis.errorbar(
            [c["gamma"] + 0.06 * index for c in mine],
            [100 * (r["ratio"] - 1) for r in ratios],
            yerr=[
                [100 * (r["ratio"] - r["low"]) for r in ratios],
                [100 * (r["high"] - r["ratio"]) for r in ratios],
            ],
            marker="o",
            capsize=2,
            color=colors(index),
            label=name,
        )
    axis.axhline(0, color=INK, linewidth=0.8)
    _plain_axes(axis, "Tokens a step, T 1: block over token verification", "γ", "% more")
    axis.legend(frameon=False, fontsize=8)
