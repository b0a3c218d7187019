"""Arms take turns on each prompt, so that a slow minute of the machine hits all of them alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.bench.arms import Arm
from pipelines.console import say
from specdecode.errors import ConfigError
from specdecode.statistics.bootstrap import paired_ratio_interval
from specdecode.statistics.interval import Interval

Row = dict[str, Any]

_SEED = 20_240_615
_PROGRESS_EVERY = 5


@dataclass(frozen=True)
class BenchPrompt:
    """A prompt as token ids."""

    name: str
    ids: list[int]


def take_turns(
    section: str,
    arms: Sequence[Arm],
    prompts: Sequence[BenchPrompt],
    temperatures: Sequence[float],
    tokens: int,
) -> list[Row]:
    """Run every arm on every prompt; the arm that begins changes from prompt to prompt.

    Args:
        section: name kept in each row.
        arms: what to compare.
        prompts: shared by all arms, like the seed.
        temperatures: each gets its own rows.
        tokens: exact length of every reply.
    """
    for arm in arms:  # first calls compile, allocate and page in
        arm.run(prompts[0].ids, 4, temperatures[0], 0)
    rows: list[Row] = []
    for index, prompt in enumerate(prompts):
        for temperature in temperatures:
            for turn in range(len(arms)):
                arm = arms[(turn + index) % len(arms)]
                outcome = arm.run(prompt.ids, tokens, temperature, index)
                rows.append(
                    {
                        "section": section,
                        "prompt": prompt.name,
                        "temperature": temperature,
                        "arm": arm.name,
                        "turn": turn,
                        **asdict(outcome),
                    }
                )
        if (index + 1) % _PROGRESS_EVERY == 0 or index + 1 == len(prompts):
            say(f"{section}: {index + 1} of {len(prompts)} prompts")
    return rows


def speed_ratio(
    rows: Iterable[Row],
    slow: str,
    fast: str,
    temperature: float | None = None,
    *,
    decoding_only: bool = False,
) -> Row:
    """How many times faster `fast` is than `slow`, seconds per token, paired by prompt.

    Args:
        rows: of `take_turns`.
        slow: arm in the numerator.
        fast: arm in the denominator.
        temperature: use its rows only; None pools all.
        decoding_only: leave out the prompt and the first token, which speculation does not touch.

    Returns:
        {ratio, low, high, n}: 95 % bootstrap interval over prompts.

    Raises:
        ConfigError: nothing to pair.
    """
    seconds: dict[tuple[str, float], dict[str, float]] = {}
    for row in rows:
        chosen = temperature is None or row["temperature"] == temperature
        if chosen and row["arm"] in (slow, fast):
            cell = seconds.setdefault((row["prompt"], row["temperature"]), {})
            cell[row["arm"]] = _per_token(row, decoding_only=decoding_only)
    pairs = [(key[0], c[slow], c[fast]) for key, c in seconds.items() if slow in c and fast in c]
    interval = paired_ratio_interval(
        [s for _, s, _ in pairs],
        [f for _, _, f in pairs],
        clusters=[prompt for prompt, _, _ in pairs],
        seed=_SEED,
    )
    if interval is None:
        raise ConfigError(f"fewer than two prompts were run by both '{slow}' and '{fast}'")
    return as_ratio(interval)


def _per_token(row: Row, *, decoding_only: bool) -> float:
    if not decoding_only:
        return float(row["seconds"] / row["tokens"])
    if row["decoding_s"] is None or row["tokens"] < 2:
        raise ConfigError(f"arm '{row['arm']}' does not tell its decoding time apart")
    return float(row["decoding_s"] / (row["tokens"] - 1))


def as_ratio(interval: Interval) -> Row:
    """The form in which every ratio stands in the report."""
    return {
        "ratio": round(interval.estimate, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "n": interval.n,
    }


def per_token_ms(rows: Iterable[Row], arm: str, temperature: float) -> float:
    """Milliseconds per output token of an arm, all replies together."""
    chosen = [r for r in rows if r["arm"] == arm and r["temperature"] == temperature]
    seconds, tokens = (float(sum(r[name] for r in chosen)) for name in ("seconds", "tokens"))
    return round(1e3 * seconds / tokens, 3)


def mean_length(rows: Iterable[Row], arm: str, temperature: float) -> float | None:
    """Mean acceptance length of an arm, bonus token INCLUDED; None for plain decoding."""
    chosen = [r for r in rows if r["arm"] == arm and r["temperature"] == temperature]
    steps = sum(r["steps"] or 0 for r in chosen)
    return round(1 + sum(r["accepted"] or 0 for r in chosen) / steps, 4) if steps else None
