"""An explanation on the terminal. Marks carry the meaning; colours only repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specdecode.cli.console import number

if TYPE_CHECKING:
    from specdecode.explaining.document import Assumption, Explanation, Stage, Step, Token

# Around a token, and its style: blue, orange and violet are told apart by everybody, and where
# there are no colours the marks are left.
_MARKS = {
    "accepted": ("", ""),
    "resampled": ("‹", "›"),
    "bonus": ("(+", ")"),
    "plain": ("{", "}"),
}
_STYLES = {
    "accepted": "bright_blue",
    "resampled": "bold dark_orange",
    "bonus": "bold violet",
    "plain": "dim",
}
_STATES = {"held": "held", "failed": "FAILED", "unknown": "unknown"}
_STATE_STYLES = {"held": "", "failed": "bold dark_orange", "unknown": "dim"}
_MOST_CONTROL = 0x20


def show_explanation(found: Explanation, console: Console) -> None:
    """Print the finding, the reply by origin, the steps from the end, times and assumptions."""
    console.print(Text(found.summary, style="bold"))
    console.print(Text(found.reproduction))
    console.print(Text(_setting(found)))
    console.print()
    console.print(reply_text(found.tokens))
    console.print(_legend(found.tokens))
    console.print()
    if found.steps:
        console.print(_steps(found.steps))
        console.print()
    console.print(_stages(found.stages))
    console.print()
    console.print(_assumptions(found.assumptions))


def reply_text(tokens: Sequence[Token]) -> Text:
    """The reply with every token marked by its origin."""
    text = Text()
    for token in tokens:
        before, after = _MARKS[token.origin]
        text.append(f"{before}{visible(token.text)}{after}", style=_STYLES[token.origin])
    return text


def visible(text: str) -> str:
    """Text in which line breaks are seen and control characters do nothing."""
    shown = text.replace("\n", "⏎\n")
    return "".join(c if c == "\n" or ord(c) >= _MOST_CONTROL else f"\\x{ord(c):02x}" for c in shown)


def _setting(found: Explanation) -> str:
    if found.draft is None:
        return f"{found.request}: plain decoding"
    return (
        f"{found.request}: verification {found.verification}, draft {found.draft}, "
        f"{found.num_speculative_tokens} draft tokens a step"
    )


def _legend(tokens: Sequence[Token]) -> Text:
    from specdecode.explaining.document import MEANING

    text = Text()
    for origin, meaning in MEANING.items():
        count = sum(token.origin == origin for token in tokens)
        before, after = _MARKS[origin]
        text.append(f"{before}{origin}{after}", style=_STYLES[origin])
        text.append(f" {count}: {meaning}\n")
    text.rstrip()
    return text


def _steps(steps: Sequence[Step]) -> Table:
    table = Table(title="Steps, the last one first", title_justify="left", pad_edge=False)
    for name in ("step", "drafted", "kept"):
        table.add_column(name, justify="right")
    table.add_column("where it stopped, and why")
    for name in ("draft ms", "score ms", "verify ms", "ms / token"):
        table.add_column(name, justify="right")
    for step in steps:
        cost = number(None if step.s_per_token is None else 1e3 * step.s_per_token, 1)
        table.add_row(
            str(step.step),
            str(len(step.drafted)),
            str(step.accepted),
            Text(visible(step.stopped)),
            *(f"{1e3 * s:.1f}" for s in (step.draft_s, step.score_s, step.verify_s)),
            f"{cost} slowest" if step.slowest else cost,
        )
    return table


def _stages(stages: Sequence[Stage]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("stage")
    table.add_column("ms", justify="right")
    table.add_column("share", justify="right")
    for stage in stages:
        ms = number(None if stage.seconds is None else 1e3 * stage.seconds, 1)
        share = number(None if stage.share is None else 100 * stage.share, 0, " %")
        table.add_row(stage.name, ms, share)
    return table


def _assumptions(assumptions: Sequence[Assumption]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("assumption", "", "finding"):
        table.add_column(name)
    for entry in assumptions:
        state = Text(_STATES[entry.state], style=_STATE_STYLES[entry.state])
        table.add_row(entry.name, state, Text(entry.words))
    return table
