"""How the ladder says that it waits, and how it shortens what it quotes."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.governance.ladder_actions import Hold
from specdecode.governance.ladder_facts import Situation

_SHOWN = 3


def hold(known: Situation, reason: str, *, ended: bool = False) -> Hold:
    """Leave everything as it is; the plan's owner answers for it."""
    return Hold(reason=reason, owner=known.plan.owner, ended=ended)


def short(digest: str | None) -> str:
    """The first digits of a SHA-256."""
    return "unknown" if digest is None else digest[:12]


def some(texts: Sequence[str]) -> str:
    """The first of them, and how many there are beside."""
    shown = "; ".join(texts[:_SHOWN]) or "no reason given"
    more = len(texts) - _SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown
