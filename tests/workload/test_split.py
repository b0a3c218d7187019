"""Halves are even in every stratum, repeatable, and never part near-duplicates."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.workload import Prompt
from specdecode.workload.split import DEVELOPMENT, RESERVE, assign_splits, seeded_hash
from tests.workload.examples import (
    CATEGORIES,
    DIFFICULTIES,
    LANGUAGES,
    prompt,
    prompt_set,
    scrambled,
)

STRATA = st.tuples(
    st.sampled_from(CATEGORIES), st.sampled_from(LANGUAGES), st.sampled_from(DIFFICULTIES)
)
SEEDS = st.integers(0, 2**32)


def prompts_of(strata: list[tuple[str, str, str]]) -> list[Prompt]:
    return [
        prompt(f"p{i}", category=category, language=language, difficulty=difficulty)
        for i, (category, language, difficulty) in enumerate(strata)
    ]


@settings(deadline=None)
@given(st.lists(STRATA, min_size=1, max_size=40), SEEDS)
def test_halves_of_a_stratum_differ_by_at_most_one(
    strata: list[tuple[str, str, str]], seed: int
) -> None:
    prompts = prompts_of(strata)

    split = assign_splits(prompts, seed=seed)

    lead: Counter[tuple[str, str, str]] = Counter()
    for p in prompts:
        stratum = (p.category, p.language, p.difficulty)
        lead[stratum] += 1 if split[p.prompt_id] == DEVELOPMENT else -1
    assert set(split.values()) <= {DEVELOPMENT, RESERVE}
    assert all(abs(difference) <= 1 for difference in lead.values())


@settings(deadline=None)
@given(st.lists(STRATA, max_size=30), SEEDS)
def test_the_split_depends_on_prompts_and_seed_alone(
    strata: list[tuple[str, str, str]], seed: int
) -> None:
    prompts = prompts_of(strata)
    shuffled = list(prompts)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - an order, not a secret

    assert assign_splits(shuffled, seed=seed) == assign_splits(prompts, seed=seed)


@settings(deadline=None)
@given(SEEDS, st.integers(2, 6), st.integers(1, 5))
def test_near_duplicates_never_straddle(seed: int, copies: int, groups: int) -> None:
    prompts = [
        prompt(f"g{g}-{i}", f"{scrambled(g, 8)} {'!' * i}", category=CATEGORIES[i % 3])
        for g in range(groups)
        for i in range(copies)
    ]

    split = assign_splits(prompts, seed=seed)

    for g in range(groups):
        assert len({split[f"g{g}-{i}"] for i in range(copies)}) == 1


def test_margins_are_even_when_strata_hold_one_prompt_each() -> None:
    prompts = prompt_set(per_stratum=1)

    split = assign_splits(prompts, seed=3)

    for field in ("category", "language", "difficulty"):
        counts = Counter((getattr(p, field), split[p.prompt_id]) for p in prompts)
        for value in {getattr(p, field) for p in prompts}:
            assert abs(counts[value, DEVELOPMENT] - counts[value, RESERVE]) <= 3


def test_another_seed_gives_another_split() -> None:
    prompts = prompt_set()

    assert assign_splits(prompts, seed=1) != assign_splits(prompts, seed=2)


def test_wrong_thresholds_and_double_ids_are_refused() -> None:
    with pytest.raises(ConfigError, match="jaccard must lie in"):
        assign_splits([prompt("a")], seed=1, jaccard=0)
    with pytest.raises(ConfigError, match="not unique"):
        assign_splits([prompt("a", "one"), prompt("a", "two")], seed=1)


def test_hash_parts_do_not_run_together() -> None:
    assert seeded_hash("ab", "c") != seeded_hash("a", "bc")
    assert seeded_hash(1, "x") == seeded_hash(1, "x")
