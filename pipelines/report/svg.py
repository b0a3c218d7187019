"""Matplotlib figures as text: SVG that can live inside an HTML page, and PNG files.

Both are deterministic: a fixed salt for ids, no date, no version of the drawing library.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from pipelines.report.standins import stand_in
from pipelines.report.theme import PAGE, PRINT, Theme, css_variables

Draw = Callable[[Theme], Figure]
_LONGEST_LABEL = 22

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "specdecode",
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and copied
    "text.parse_math": False,  # a dollar sign in a label is a dollar sign
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
_PROLOGUE = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
# A style element would reach beyond its picture; the page's own style sheet says the same.
_STYLE = re.compile(r"\s*<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_DIMENSIONS = re.compile(r'(<svg[^>]*?) (?:width|height)="[\d.]+pt"')
_ID = re.compile(r'(\bid="|href="#|url\(#)')


def new_figure(theme: Theme, width: float, height: float) -> tuple[Figure, mpl.axes.Axes]:
    """An empty figure with one set of axes in the colours of the theme.

    Args:
        theme: colours.
        width: inches; 4.6 keeps text legible when the page is 320 px wide.
        height: inches.
    """
    figure = Figure(figsize=(width, height))
    axes = figure.add_subplot()
    axes.tick_params(colors=theme.muted, labelcolor=theme.ink)
    for spine in axes.spines.values():
        spine.set_color(theme.muted)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(theme.ink)
    axes.set_facecolor("none")
    figure.patch.set_alpha(0.0)
    return figure, axes


def shortened(label: str) -> str:
    """A label that leaves room for the picture; the table behind it has all of it."""
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def inline_svg(draw: Draw, *, name: str, alt: str) -> str:
    """Draw for the page.

    Args:
        draw: makes the figure in given colours.
        name: prefix of the ids inside, unique on the page.
        alt: what the picture shows, for those who don't see it.

    Returns:
        One `<svg>` element with CSS variables for colours.
    """
    buffer = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        figure = draw(PAGE)
        stood_for = str.maketrans(stand_in(figure))
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = _PROLOGUE.sub("", buffer.getvalue().translate(stood_for), count=1)
    svg = _STYLE.sub("", _METADATA.sub("", svg), count=1)
    for _ in range(2):
        svg = _DIMENSIONS.sub(r"\1", svg, count=1)
    svg = _ID.sub(rf"\g<1>{name}-", svg)
    for variable, colour in css_variables(PAGE).items():
        svg = svg.replace(colour, f"var(--{variable})")
    title = f'<title id="{name}-title">{escape(alt)}</title>'
    svg = svg.replace("<svg", f'<svg role="img" aria-labelledby="{name}-title"', 1)
    opening, rest = svg.split(">", 1)
    return f"{opening}>{title}{rest}".strip()


def write_png(draw: Draw, path: Path) -> None:
    """Draw for people who want a file: on white, 160 dots an inch."""
    with mpl.rc_context(_SETTINGS):
        figure = draw(PRINT)
        figure.patch.set_alpha(1.0)
        figure.patch.set_facecolor("white")
        figure.savefig(path, format="png", dpi=160, metadata={"Software": None})
