"""Replies on the terminal while they are decoded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from specdecode.cli.console import number

if TYPE_CHECKING:
    from specdecode.decoding import Engine, GenerationResult, SamplingParams
    from specdecode.decoding.prompts import Prompt


@dataclass(frozen=True)
class Lane:
    """One engine and what to call it."""

    name: str
    engine: Engine


def decode_lanes(
    lanes: Sequence[Lane],
    prompt: Prompt,
    params: SamplingParams,
    console: Console,
    *,
    trace: bool = False,
) -> dict[str, GenerationResult]:
    """Decode the prompt on each engine in turn; on a terminal, show the text as it grows.

    Args:
        lanes: engines; they run one after the other, so that none slows another down.
        prompt: the prompt.
        params: sampling parameters, for all lanes the same.
        console: where to draw; nothing is drawn unless it is a terminal.
        trace: keep what every step did.

    Returns:
        Results by lane name.
    """
    texts = {lane.name: "" for lane in lanes}
    notes = {lane.name: "waiting" for lane in lanes}
    results: dict[str, GenerationResult] = {}
    if not console.is_terminal:
        for lane in lanes:
            results[lane.name] = lane.engine.generate([prompt], params, trace=trace)[0]
        return results
    with Live(console=console, refresh_per_second=12, transient=True) as live:
        for lane in lanes:
            for text, note, result in _follow(lane, prompt, params, trace=trace):
                texts[lane.name], notes[lane.name] = text, note
                live.update(_side_by_side(texts, notes))
                if result is not None:
                    results[lane.name] = result
    return results


def _follow(
    lane: Lane, prompt: Prompt, params: SamplingParams, *, trace: bool
) -> Iterator[tuple[str, str, GenerationResult | None]]:
    ids: list[int] = []
    started = time.perf_counter()
    for event in lane.engine.stream(prompt, params, trace=trace):
        ids.extend(event.token_ids)
        rate = len(ids) / (time.perf_counter() - started)
        text = _decode(lane.engine, ids)
        yield text, f"{len(ids)} tokens, {rate:.1f} tokens/s", event.result


def _decode(engine: Engine, ids: Sequence[int]) -> str:
    tokenizer = engine.target.tokenizer
    if tokenizer is None:
        return " ".join(str(token) for token in ids)
    return str(tokenizer.decode(ids, skip_special_tokens=True))


def _side_by_side(texts: Mapping[str, str], notes: Mapping[str, str]) -> RenderableType:
    # Text objects, not strings: a reply may hold what looks like markup.
    panels = [
        Panel(Text(texts[name]), title=name, subtitle=notes[name], padding=(0, 1)) for name in texts
    ]
    grid = Table.grid(expand=True)
    for _ in panels:
        grid.add_column(ratio=1)
    grid.add_row(*panels)
    return grid


def show_replies(replies: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """Print finished replies with their numbers; panels on a terminal, plain text in a pipe."""
    for name, reply in replies.items():
        text = reply["text"]
        body = Text(" ".join(map(str, reply["token_ids"])) if text is None else text)
        facts = _facts(reply)
        if console.is_terminal:
            console.print(Panel(body, title=name, subtitle=facts, padding=(0, 1)))
        else:
            console.print(Text(f"== {name}: {facts}"))
            console.print(body)


def _facts(reply: Mapping[str, Any]) -> str:
    facts = [
        f"{reply['output_tokens']} tokens",
        f"{number(reply['output_tokens_per_s'], 1)} tokens/s",
    ]
    if reply["drafted"]:
        facts.append(f"accepted {reply['accepted']} of {reply['drafted']} drafted")
        facts.append(f"{number(reply['mean_acceptance_length'], 2)} tokens per step")
    return ", ".join(facts)
