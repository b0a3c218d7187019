"""Room for scripts that the drawing library's font lacks.

Text in a picture stays text and is drawn by the reader's browser. Matplotlib lays it out with
DejaVu Sans, which has no Chinese or Japanese characters, so it would neither know their width nor
keep quiet about them. They are replaced by characters of that font that are one em wide, as they
are, and put back once the picture is markup. No other font is needed, and the bytes are the same
on every machine.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache

from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.ft2font import LoadFlags
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter

_WIDE = ("W", "F")
_EM, _TOLERANCE = 100, 0.03


def stand_in(figure: Figure) -> dict[str, str]:
    """Replace the wide characters of a figure.

    Returns:
        Stand-in to the character it stands for.

    Raises:
        ValueError: too many different wide characters in one picture.
    """
    axes = [axis for pane in figure.axes for axis in (pane.xaxis, pane.yaxis)]
    for axis in axes:
        axis.get_ticklabels()  # computes what stands at the ticks
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    written = "".join(text.get_text() for text in texts)
    wide = sorted({sign for sign in written if unicodedata.east_asian_width(sign) in _WIDE})
    free = [sign for sign in em_wide() if sign not in written]
    if len(wide) > len(free):
        raise ValueError(
            f"{len(wide)} different wide characters in one picture, room for {len(free)}; "
            "shorten its labels"
        )
    table = str.maketrans(dict(zip(wide, free, strict=False)))
    for text in texts:
        text.set_text(text.get_text().translate(table))
    for axis in axes:
        labels = axis.get_major_formatter()
        if wide and isinstance(labels, FuncFormatter):  # labels from a list are made anew each time
            axis.set_major_formatter(FuncFormatter(_translated(labels, table)))
    return dict(zip(free, wide, strict=False))


def _translated(labels: FuncFormatter, table: dict[int, str]) -> Callable[[float, int], str]:
    return lambda value, position: str(labels(value, position)).translate(table)


@cache
def em_wide() -> tuple[str, ...]:
    """Letters of DejaVu Sans that are one em wide, in order of their code points."""
    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    font.set_size(_EM, 72)
    return tuple(
        sign
        for code in sorted(font.get_charmap())
        if code > 0xFF
        and (sign := chr(code)).isalpha()
        and unicodedata.bidirectional(sign) == "L"
        and abs(font.load_char(code, LoadFlags.NO_HINTING).linearHoriAdvance / 65536 / _EM - 1)
        <= _TOLERANCE
    )
