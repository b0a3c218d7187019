"""Which assumptions are flipped, and what a flip changes.

A flip is a function from the parameters of a run to those that differ, so that "half the draft
length" means half of what is there. A new flip is one entry of `FLIPS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specdecode.errors import ConfigError

UNCHANGED = "unchanged"
USELESS_DRAFT = "early-exit:1"
HOTTER = 1.5
NOTE_WORDS = 600

Params = Mapping[str, Any]
Override = dict[str, Any]


@dataclass(frozen=True)
class Population:
    """Other prompts than those of the plan.

    Attributes:
        keep: whether a prompt stays, by its labels (`category`, `difficulty`, `language`).
        note_words: words of unrelated notes put before every prompt.
    """

    keep: Callable[[Mapping[str, str]], bool] = lambda labels: True
    note_words: int = 0


@dataclass(frozen=True)
class Flip:
    """One assumption, changed.

    Attributes:
        name: what it is called on the command line.
        assumption: what the unchanged evaluation takes for granted.
        change: what is done instead, in words.
        override: parameters that differ, nested as in params.yaml; raises `AlreadySoError` where
            nothing would differ.
        population: other prompts, or None.
    """

    name: str
    assumption: str
    change: str
    override: Callable[[Params], Override] = lambda params: {}
    population: Population | None = None


class AlreadySoError(ConfigError):
    """The parameters are already what a flip would make of them, so it would show nothing."""


def _useless_draft(params: Params) -> Override:
    if params["draft"]["source"] == USELESS_DRAFT:
        raise AlreadySoError(f"draft.source is '{USELESS_DRAFT}' already")
    return {"draft": {"source": USELESS_DRAFT}}


def _hotter(params: Params) -> Override:
    settings = params["decoding"]["sampling"]
    if not any(setting["temperature"] > 0 for setting in settings):
        raise AlreadySoError("decoding.sampling has no temperature above 0 to raise")
    raised = [{**s, "temperature": round(s["temperature"] * HOTTER, 6)} for s in settings]
    return {"decoding": {"sampling": raised}}


def _one_thread(params: Params) -> Override:
    if params["decoding"]["threads"] == 1:
        raise AlreadySoError("decoding.threads is 1 already")
    return {"decoding": {"threads": 1}}


def _half_length(params: Params) -> Override:
    length = params["decoding"]["num_speculative_tokens"]
    if length == 1:
        raise AlreadySoError("decoding.num_speculative_tokens is 1 and has no half")
    return {"decoding": {"num_speculative_tokens": length // 2}}


_CATALOGUE = (
    Flip(UNCHANGED, "none", "nothing: the evaluation as it stands"),
    Flip(
        "useless-draft",
        "the draft agrees with the target",
        f"the draft is '{USELESS_DRAFT}': the target's first layer, which knows next to nothing",
        override=_useless_draft,
    ),
    Flip(
        "other-language",
        "prompts are mostly English",
        "prompts in any language but English only",
        population=Population(keep=lambda labels: labels["language"] != "en"),
    ),
    Flip(
        "higher-temperature",
        "sampling is as sharp as in the plan",
        f"every temperature above 0 times {HOTTER:g}",
        override=_hotter,
    ),
    Flip(
        "longer-context",
        "contexts are short",
        f"{NOTE_WORDS} words of unrelated notes stand before every prompt",
        population=Population(note_words=NOTE_WORDS),
    ),
    Flip(
        "one-thread",
        "all cores are free for one request",
        "one CPU thread",
        override=_one_thread,
    ),
    Flip(
        "adversarial-prompts",
        "most prompts are ordinary ones",
        "prompts of the difficulty 'adversarial' only",
        population=Population(keep=lambda labels: labels["difficulty"] == "adversarial"),
    ),
    Flip(
        "half-draft-length",
        "the draft length is the right one",
        "half as many draft tokens a step",
        override=_half_length,
    ),
)
FLIPS: Mapping[str, Flip] = {flip.name: flip for flip in _CATALOGUE}
"""By name, in the order of the table; the unchanged evaluation comes first."""


def chosen(only: list[str]) -> list[Flip]:
    """Returns the flips named, in the table's order and with the unchanged one; all for none.

    Raises:
        ConfigError: a name is unknown.
    """
    unknown = [name for name in only if name not in FLIPS]
    if unknown:
        raise ConfigError(
            f"there is no flip '{unknown[0]}'; choose from: {', '.join(FLIPS)} "
            "(`specdecode flip --list` says what each changes)"
        )
    return [f for f in FLIPS.values() if not only or f.name in only or f.name == UNCHANGED]
