"""Colours: one per arm, safe for colour-blind readers, in light, dark and print.

A figure is drawn twice from the same code: with `PRINT` for PNG files, and with `PAGE` for the
HTML page. `PAGE` holds placeholder colours that `svg.py` replaces by CSS variables, so that the
page's own style sheet decides what they look like in light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ARM_ORDER = ("plain", "token", "block")
# Okabe & Ito's palette; plain decoding is the grey everything is compared with.
_LIGHT_ARMS = ("#5f6773", "#0072b2", "#c35200", "#007a59", "#a8467f", "#8a6d00")
_DARK_ARMS = ("#aab2bf", "#56b4e9", "#f0a04b", "#3cc79b", "#e08fc0", "#e3cf4a")
_PAGE_ARMS = tuple(f"#fe{index:02x}fe" for index in range(len(_LIGHT_ARMS)))
MARKERS = ("o", "s", "D", "^", "v", "P")


@dataclass(frozen=True)
class Theme:
    """Colours of one rendering."""

    ink: str
    muted: str
    grid: str
    alarm: str
    parts: tuple[str, str, str]
    arms: tuple[str, ...]

    def arm(self, arm: str, arms: Sequence[str]) -> str:
        """Colour of an arm: fixed for the known ones, by position for the others."""
        return self.arms[slot(arm, arms)]


PRINT = Theme(
    ink="#1b1f24",
    muted="#59636e",
    grid="#d8dde3",
    alarm="#b3261e",
    parts=("#8a6d00", "#007a59", "#9aa1ab"),
    arms=_LIGHT_ARMS,
)
DARK = Theme(
    ink="#e8ebef",
    muted="#a7b0bb",
    grid="#3a424d",
    alarm="#ff8a80",
    parts=("#e3cf4a", "#3cc79b", "#79828e"),
    arms=_DARK_ARMS,
)
PAGE = Theme(
    ink="#fd01fd",
    muted="#fd02fd",
    grid="#fd03fd",
    alarm="#fd04fd",
    parts=("#fd05fd", "#fd06fd", "#fd07fd"),
    arms=_PAGE_ARMS,
)


def slot(arm: str, arms: Sequence[str]) -> int:
    """Index into the palette; an arm keeps its colour in every chart of a report."""
    if arm in ARM_ORDER:
        return ARM_ORDER.index(arm)
    others = [name for name in arms if name not in ARM_ORDER]
    position = others.index(arm) if arm in others else 0
    return len(ARM_ORDER) + position % (len(_LIGHT_ARMS) - len(ARM_ORDER))


def marker(arm: str, arms: Sequence[str]) -> str:
    """Marker of an arm: colour is never the only difference."""
    return MARKERS[slot(arm, arms)]


def css_variables(theme: Theme) -> dict[str, str]:
    """CSS variable names to colours."""
    named = {"ink": theme.ink, "muted": theme.muted, "grid": theme.grid, "alarm": theme.alarm}
    named |= {f"part-{index}": colour for index, colour in enumerate(theme.parts)}
    named |= {f"arm-{index}": colour for index, colour in enumerate(theme.arms)}
    return named


def sort_arms(arms: Sequence[str]) -> list[str]:
    """Known arms first, in a fixed order, then the others by name."""
    known = [arm for arm in ARM_ORDER if arm in arms]
    return known + sorted(set(arms) - set(ARM_ORDER))
