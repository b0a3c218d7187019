"""What prompts must be before they are locked away, when it can still be corrected.

Once locked, nobody can look at them without consuming them. So they are judged before, by the
rules the compiled table is judged by: references pass their checkers, checkers are where the
category promises one, no personal data, room for a reply; and none may stand, whole or in part,
among the prompts that are public.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from specdecode.errors import ConfigError, DataValidationError
from specdecode.workload.checkers import check
from specdecode.workload.compile import (
    ChatTokenizer,
    encode,
    reference_score,
    refuse_too_long,
)
from specdecode.workload.personal_data import personal_data
from specdecode.workload.prompts import Prompt
from specdecode.workload.similarity import ngrams_of, shared_ngrams
from specdecode.workload.text import character_shingles, normalised

ONE_RIGHT_ANSWER = ("exact", "numeric")
"""Checkers whose prompts need a reference: a person reading a failure must be able to see it."""


@dataclass(frozen=True)
class Limits:
    """How much a held-out prompt may have in common with a public one.

    Attributes:
        jaccard: pairs whose character shingles reach this Jaccard index are refused.
        overlap: pairs are refused that share more than this part of the word 13-grams of the
            prompt with fewer of them; 0 refuses any common run of 13 words.
    """

    jaccard: float = 0.6
    overlap: float = 0.0

    def __post_init__(self) -> None:
        """Refuse limits that refuse nothing.

        Raises:
            ConfigError: a limit is out of range.
        """
        if not 0 < self.jaccard <= 1 or not 0 <= self.overlap < 1:
            raise ConfigError(
                f"held out: jaccard must lie in (0, 1] and overlap in [0, 1), found "
                f"{self.jaccard} and {self.overlap}"
            )


@dataclass(frozen=True)
class Comparison:
    """What held-out prompts have in common with public ones, at most.

    Attributes:
        prompts: number of public prompts.
        largest_overlap: largest share of common word 13-grams of a pair (see `Limits`).
        largest_jaccard: largest Jaccard index of a pair.
    """

    prompts: int
    largest_overlap: float
    largest_jaccard: float


def compare(
    held_out: Sequence[Prompt], public: Sequence[Prompt], limits: Limits | None = None
) -> Comparison:
    """Look for held-out prompts in public ones, exactly and pair by pair.

    Raises:
        ConfigError: there is no public prompt; an empty comparison finds nothing and shows nothing.
        DataValidationError: an id, a text, or more of a text than `limits` allow is public; names
            the held-out prompts, and never quotes them.
    """
    if not public:
        raise ConfigError("held out: there is no public prompt to compare with")
    limits = limits or Limits()
    known = {prompt.prompt_id for prompt in public}
    _refuse(
        (p.prompt_id for p in held_out if p.prompt_id in known),
        "these ids are those of public prompts; give the held-out ones ids of their own",
    )
    texts = {normalised(prompt.text) for prompt in public}
    _refuse(
        (p.prompt_id for p in held_out if normalised(p.text) in texts),
        "the same text is public; write another prompt",
    )
    overlap, nearest = _overlaps(held_out, public), _nearest(held_out, public)
    _refuse(
        (name for name, share in overlap.items() if share > limits.overlap),
        f"more than {limits.overlap:g} of the 13-word runs are in a public prompt; write another",
    )
    _refuse(
        (name for name, index in nearest.items() if index >= limits.jaccard),
        f"nearly a public prompt (Jaccard index of {limits.jaccard:g} or more); write another",
    )
    return Comparison(
        len(public),
        max(overlap.values(), default=0.0),
        max(nearest.values(), default=0.0),
    )


def refuse_invalid(held_out: Sequence[Prompt], checkable: Collection[str] = ()) -> None:
    """Judge the prompts by themselves.

    Args:
        held_out: the prompts.
        checkable: categories in which every prompt must have a checker.

    Raises:
        DataValidationError: two prompts have one text, a reference fails its checker, an empty
            reply passes it, a checker or a reference is missing, or something looks like personal
            data; names the prompts.
    """
    times = Counter(normalised(prompt.text) for prompt in held_out)
    rules: dict[str, Callable[[Prompt], bool]] = {
        "the same wording occurs twice; remove one": lambda p: times[normalised(p.text)] > 1,
        "no checker, although the category promises one; add it": lambda p: (
            p.checker is None and p.category in checkable
        ),
        "a single right answer is not written down; add the reference": lambda p: (
            p.checker is not None and p.checker.type in ONE_RIGHT_ANSWER and p.reference is None
        ),
        "looks like personal data; use invented data of a reserved range": lambda p: bool(
            personal_data(p.text)
        ),
        "an empty reply passes the checker; make it ask for something": lambda p: bool(
            check(p, "")
        ),
        "a reference fails its own checker; correct one of them": lambda p: (
            (reference_score(p) or 0.0) < 1 if p.checker and p.reference else False
        ),
    }
    for advice, breaks in rules.items():
        _refuse((p.prompt_id for p in held_out if breaks(p)), advice)


def longest(
    held_out: Sequence[Prompt], tokenizer: ChatTokenizer, context_tokens: int, reply_tokens: int
) -> int:
    """Tokens of the longest prompt, chat template included.

    Raises:
        PromptTooLongError: a prompt leaves no room for a reply of `reply_tokens`.
    """
    ids = {prompt.prompt_id: encode(prompt, tokenizer) for prompt in held_out}
    refuse_too_long(ids, context_tokens, reply_tokens)
    return max(len(own) for own in ids.values())


def always_checked(prompts: Iterable[Prompt]) -> set[str]:
    """Categories in which every one of these prompts has a checker."""
    by_category: defaultdict[str, list[bool]] = defaultdict(list)
    for prompt in prompts:
        by_category[prompt.category].append(prompt.checker is not None)
    return {category for category, has in by_category.items() if all(has)}


def _refuse(names: Iterable[str], advice: str) -> None:
    if found := sorted(names):
        raise DataValidationError(f"{len(found)} held-out prompts: {advice}", found)


def _overlaps(held_out: Sequence[Prompt], public: Sequence[Prompt]) -> dict[str, float]:
    """By held-out prompt: its largest share of common word 13-grams with a public one."""
    sides = {"held": held_out, "public": public}
    texts = {f"{side} {p.prompt_id}": p.text for side, prompts in sides.items() for p in prompts}
    ngrams = ngrams_of(texts)
    found = {p.prompt_id: 0.0 for p in held_out}
    for (first, second), common in shared_ngrams(ngrams).items():
        side, _, name = first.partition(" ")
        if side == "held" and second.startswith("public "):  # pairs come in the order of names
            share = common / min(len(ngrams[first]), len(ngrams[second]))
            found[name] = max(found[name], share)
    return found


def _nearest(held_out: Sequence[Prompt], public: Sequence[Prompt]) -> dict[str, float]:
    """By held-out prompt: the largest Jaccard index of character shingles with a public one."""
    others = [character_shingles(prompt.text) for prompt in public]
    return {p.prompt_id: _largest_index(character_shingles(p.text), others) for p in held_out}


def _largest_index(own: frozenset[str], others: Iterable[frozenset[str]]) -> float:
    best = 0.0
    for other in others:
        small, large = sorted((len(own), len(other)))
        if small > best * large:  # else not even the smaller set as a whole could be nearer
            common = len(own & other)
            best = max(best, common / (len(own) + len(other) - common))
    return best
