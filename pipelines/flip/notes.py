"""Unrelated notes that make a context long: dull, true to nothing, different for each prompt.

They are made from word lists and not taken from the prompts, so that no answer stands in them and
no two prompts come to resemble each other.
"""

from __future__ import annotations

import random

from specdecode.workload.split import seeded_hash

_THINGS = (
    *("barrel", "basket", "bench", "bicycle", "boat", "bridge", "candle", "carpet", "clock"),
    *("cupboard", "drum", "fence", "gate", "hammer", "kettle", "ladder", "lamp", "map", "mirror"),
    *("parcel", "piano", "plough", "rope", "sail", "stove", "table", "ticket", "trumpet", "window"),
)
_LOOKS = ("blue", "broken", "heavy", "new", "old", "painted", "quiet", "round", "small", "wooden")
_DOINGS = ("brought to", "carried past", "found near", "kept in", "left behind", "taken from")
_PLACES = ("barn", "cellar", "harbour", "library", "market", "mill", "school", "station", "tower")
_TIMES = ("in spring", "before noon", "after the rain", "late at night", "on a Tuesday")

_BEFORE = "Notes from an archive. They have nothing to do with the question after them."
_AFTER = "End of the notes. The question:"


def with_notes(turn: str, prompt_id: str, words: int) -> str:
    """Returns `turn` with at least `words` words of notes before it; the same for the same id."""
    rng = random.Random(seeded_hash("notes", prompt_id))  # noqa: S311 - filler, not a secret
    sentences: list[str] = []
    count = 0
    while count < words:
        sentence = (
            f"The {rng.choice(_LOOKS)} {rng.choice(_THINGS)} and the {rng.choice(_THINGS)} were "
            f"{rng.choice(_DOINGS)} the {rng.choice(_LOOKS)} {rng.choice(_PLACES)} "
            f"{rng.choice(_TIMES)}."
        )
        sentences.append(sentence)
        count += len(sentence.split())
    return "\n\n".join((_BEFORE, " ".join(sentences), _AFTER, turn))
