"""The steps of a reply on the terminal: what was drafted, how it was judged, what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from specdecode.decoding import StepTrace

Spell = Callable[[int], str]
"""A token id as it is shown."""


def show_steps(steps: Sequence[StepTrace], spell: Spell, console: Console) -> None:
    """Print a trace, one table a step.

    Columns: the draft's probability q of each proposed token, the target's probability p, the coin
    that judged it, and whether it was kept.
    """
    for step in steps:
        times = ", ".join(
            f"{name} {1e3 * seconds:.1f} ms"
            for name, seconds in (
                ("draft", step.draft_s),
                ("score", step.score_s),
                ("verify", step.verify_s),
            )
        )
        console.print()
        console.print(Text(f"Step {step.step}, position {step.position}: {times}"))
        if step.draft_tokens:
            console.print(_table(step, spell))
        console.print(Text(_outcome(step, spell)))


def _table(step: StepTrace, spell: Spell) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("draft token")
    for name in ("q", "p", "coin"):
        table.add_column(name, justify="right")
    table.add_column("")
    rows = zip(
        step.draft_tokens, step.draft_probs, step.target_probs, step.accept_coins, strict=True
    )
    for index, (token, q, p, coin) in enumerate(rows):
        verdict = "kept" if index < step.num_accepted else "dropped"
        table.add_row(Text(spell(token)), f"{q:.4f}", f"{p:.4f}", f"{coin:.4f}", verdict)
    return table


def _outcome(step: StepTrace, spell: Spell) -> str:
    if len(step.emitted) <= step.num_accepted:
        return "The reply ended within the kept tokens."
    drawn = len(step.draft_tokens) == step.num_accepted
    how = "bonus token of the target" if drawn else "drawn in its place"
    return f"then {spell(step.emitted[-1])}  ({how}, coin {step.resample_coin:.4f})"
