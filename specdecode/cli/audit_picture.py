"""The picture of an audit: evidence against tokens read, one line an arm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from specdecode.cli.outputs import write_output
from specdecode.errors import ConfigError, MissingPrerequisiteError

_INK, _GRID, _ALARM = "#1f2933", "#d5dbe1", "#b42318"
# Told apart without colour, too.
_LINES = ("-", "--", "-.", ":")


def check_picture(path: Path) -> None:
    """Refuses what could not be drawn before the audit runs for minutes.

    Raises:
        ConfigError: the file's name does not end in .svg.
        MissingPrerequisiteError: matplotlib is not installed.
    """
    if path.suffix.lower() != ".svg":
        raise ConfigError(f"--picture {path}: the picture is SVG; give a name that ends in .svg")
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError as error:
        raise MissingPrerequisiteError(
            "--picture needs matplotlib; install it with: pip install 'specdecode[pipelines]'"
        ) from error


def write_picture(path: Path, reports: Mapping[str, Mapping[str, Any]], alpha: float) -> None:
    """Writes an SVG; equal reports give equal bytes.

    Args:
        path: where to.
        reports: of the audit, by arm, as JSON.
        alpha: level; its limit is drawn.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        "svg.hashsalt": "specdecode", "svg.fonttype": "none", "font.size": 9, "text.color": _INK,
    }  # fmt: skip
    with mpl.rc_context(settings):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        limit = math.log(1 / alpha)
        axes.axhline(limit, color=_ALARM, linewidth=1, label=f"biased at α = {alpha:g}")
        axes.axhline(0, color=_INK, linewidth=0.5)
        for index, (arm, report) in enumerate(reports.items()):
            points = [(0, 0.0), *report["evidence"]]
            axes.plot(
                [tokens for tokens, _ in points],
                [log_e for _, log_e in points],
                _LINES[index % len(_LINES)],
                label=f"{arm}: {report['verdict']}",
            )
            first = report["first_evidence"]
            if first is not None:
                height = limit if first["kind"] == "e-value" else 0.0
                axes.plot([first["tokens_read"]], [height], "o", color=_ALARM, markersize=5)
        axes.set_xlabel("sampled tokens read")
        axes.set_ylabel("log e-value (evidence against losslessness)")
        axes.grid(color=_GRID, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside upper left", ncols=2, frameon=False)
        drawn = BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    write_output(path, drawn.getvalue())
