"""The trace that is replayed: what is asked, and when. `python -m pipelines.demo.traffic FILE`.

Made up, not recorded: arrivals of a Poisson process whose rate swells and falls once over the
trace, a fixed mix of categories, and prompts of the words the demonstration's model knows. The same
seed gives the same file. eval_sets/traffic/DATASHEET.md describes the one that ships.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.console import say
from pipelines.demo.model import SEED, WORDS
from specdecode.durable import written_whole
from specdecode.errors import PromptFileError

TRACE = Path(__file__).resolve().parents[2] / "eval_sets/traffic/demo.jsonl"

REQUESTS = 600
PER_S = 20.0
"""Requests per second on average."""
_SWELL = 0.5
"""By which share the rate rises and falls around its average."""
_SPREAD_SHARE = 0.8
"""Of requests that are sampled at temperature 1; the rest is greedy."""
_HARD_SHARE = 0.25

CATEGORIES: dict[str, float] = {"chat": 0.40, "question": 0.30, "code": 0.15, "summary": 0.15}
"""Share of each category among requests."""

_OPENINGS: dict[str, tuple[str, ...]] = {
    "chat": ("yes ,", "and now", "not again !", "soon ,"),
    "question": ("is", "when", "has", "but if"),
    "code": ("my engine reads", "counts", "moves two", "opens the"),
    "summary": ("the letter was", "every number is", "this road has", "then the"),
}


class Asked(BaseModel):
    """One request of a trace."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    conversation: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    category: Annotated[str, Field(pattern=r"^[a-z_]{1,32}$")]
    difficulty: Literal["normal", "hard"]
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")]
    prompt: Annotated[str, Field(min_length=1, max_length=2000)]
    max_tokens: Annotated[int, Field(ge=1, le=128)]
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]


def read_trace(path: Path) -> list[Asked]:
    """A trace, in the order of its times.

    Raises:
        PromptFileError: it cannot be read, has no request, or a line of it is wrong; names it.
    """
    found: list[Asked] = []
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PromptFileError(path, None, None, f"cannot be read ({error})") from error
    for number, line in enumerate(lines, 1):
        try:
            asked = Asked.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or None
            raise PromptFileError(path, number, field, first["msg"]) from error
        if found and asked.at_s < found[-1].at_s:
            raise PromptFileError(path, number, "at_s", "is earlier than the line before it")
        found.append(asked)
    if not found:
        raise PromptFileError(path, None, None, "holds no request; make one with this module")
    return found


def made_trace(requests: int = REQUESTS, per_s: float = PER_S, seed: int = SEED) -> list[Asked]:
    """A trace of so many requests; the same arguments give the same one."""
    draw = random.Random(seed)  # noqa: S311 - made-up traffic, no secret
    times = _arrivals(draw, requests, per_s)
    return [_request(draw, number, at_s) for number, at_s in enumerate(times)]


def _arrivals(draw: random.Random, requests: int, per_s: float) -> Iterator[float]:
    """Times of a Poisson process with one swell, by thinning (Lewis and Shedler 1979)."""
    length, at_s, highest = requests / per_s, 0.0, per_s * (1 + _SWELL)
    for _ in range(requests):
        while True:
            at_s += draw.expovariate(highest)
            rate = per_s * (1 + _SWELL * math.sin(2 * math.pi * at_s / length))
            if draw.random() * highest < rate:
                break
        yield at_s


def _request(draw: random.Random, number: int, at_s: float) -> Asked:
    category = draw.choices(list(CATEGORIES), list(CATEGORIES.values()))[0]
    hard = draw.random() < _HARD_SHARE
    words = draw.choices(WORDS, k=draw.randint(20, 40) if hard else draw.randint(3, 10))
    return Asked(
        at_s=round(at_s, 4),
        conversation=f"c{number:04d}",
        category=category,
        difficulty="hard" if hard else "normal",
        language="en",
        prompt=" ".join([draw.choice(_OPENINGS[category]), *words]),
        max_tokens=draw.randint(8, 20),
        temperature=1.0 if draw.random() < _SPREAD_SHARE else 0.0,
    )


def main(argv: list[str] | None = None) -> int:
    """Write a trace."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.demo.traffic", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=TRACE)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--per-second", type=float, default=PER_S)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(argv)
    if options.requests < 1 or not 0 < options.per_second < float("inf"):
        parser.error("requests and requests per second must be above 0")
    trace = made_trace(options.requests, options.per_second, options.seed)
    lines = [json.dumps(asked.model_dump(), sort_keys=False) + "\n" for asked in trace]
    options.file.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(options.file) as file:
        file.write("".join(lines).encode())
    say(f"wrote {len(trace)} requests over {trace[-1].at_s:.1f} s to {options.file}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
