"""Tokens to detection over total variation, one mark a fault."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from pipelines.audit_report.settings import MATTERS


def svg(document: dict[str, Any]) -> str:
    """The picture of a study's document; equal documents give equal bytes."""
    limit = document["tokens_limit"]
    with mpl.rc_context({"svg.hashsalt": "audit-report", "svg.fonttype": "path"}):
        figure = Figure(figsize=(8.5, 5.2), layout="constrained")
        axes = figure.add_subplot()
        for number, fault in enumerate(sorted(document["faults"], key=lambda f: -f["tv"]), 1):
            found = fault["median_tokens"]
            at = limit if found is None else found
            upper = limit if fault["p90_tokens"] is None else fault["p90_tokens"]
            colour = "#b3261e" if fault["detected"] < fault["runs"] else "#1f5f8b"
            tv = max(fault["tv"], 1e-4)
            axes.plot([tv, tv], [at, upper], color=colour, linewidth=1)
            axes.plot([tv], [at], marker="^" if found is None else "o", color=colour, ls="none")
            axes.annotate(str(number), (tv, at), (4, 3), textcoords="offset points", fontsize=8)
        axes.axvline(MATTERS, color="#777777", linestyle="--", linewidth=1)
        axes.axhline(limit, color="#777777", linestyle=":", linewidth=1)
        axes.set(xscale="log", yscale="log")
        axes.set_xlabel("mean total variation per token (dashed: 0.02)")
        axes.set_ylabel("tokens to detection: median, up to the 90th percentile")
        axes.set_title(
            f"{len(document['faults'])} planted faults, numbered as in the table; "
            "red: missed in some runs",
            fontsize=10,
        )
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
