"""Which prompts a cell sends."""

from __future__ import annotations

import pytest

from specdecode.workload.load.plan import make_plan
from specdecode.workload.sweep import SweepSpec
from specdecode.workload.sweep.deck import Deck
from tests.workload.sweep.conftest import ROOT

PROMPTS = ROOT / "eval_sets" / "prompts"


def spec_of(**more):
    given = {"concurrency": (1, 4, 16), "rounds": 3, "prompts": PROMPTS}
    return SweepSpec(**{**given, **more})


def sent(deck, spec, folder, number, load):
    fields = deck.of(folder, number, load)
    plan = make_plan(spec.load_of("http://localhost", "m", fields.pop("seed"), load, **fields))
    return [(r.prompt_id, r.category, r.prompt.text()) for r in plan.requests]


def test_the_projects_own_prompts_are_dealt_without_repeats(tmp_path):
    spec = spec_of()
    deck = Deck(spec, lasting=True)
    cells = [
        sent(deck, spec, tmp_path, number, load) for number in (1, 2, 3) for load in (1, 4, 16)
    ]

    assert [len(cell) for cell in cells] == [2, 8, 32] * 3
    everything = [text for cell in cells for _, _, text in cell]
    assert len(set(everything)) == len(everything)
    assert not deck.salted
    assert len({category for _, category, _ in cells[2]}) > 5  # all kinds at every load


def test_a_cell_of_few_clients_has_the_least_requests_that_are_asked_for(tmp_path):
    spec = spec_of(rounds=1, least_requests=12)
    deck = Deck(spec, lasting=False)

    assert [len(sent(deck, spec, tmp_path, 1, load)) for load in (1, 4, 16)] == [12, 12, 32]


def test_a_server_that_lives_through_all_rounds_needs_more_prompts(tmp_path):
    spec = spec_of(rounds=10)

    assert not Deck(spec, lasting=False).salted
    deck = Deck(spec, lasting=True)
    assert deck.salted
    texts = [sent(deck, spec, tmp_path, number, 16) for number in (1, 2)]
    assert len({text for cell in texts for _, _, text in cell}) == 64


def test_within_a_round_nothing_is_repeated_although_rounds_share_prompts(tmp_path):
    spec = spec_of(rounds=8)
    deck = Deck(spec, lasting=False)
    for number in range(1, 9):
        texts = [
            text for load in (1, 4, 16) for _, _, text in sent(deck, spec, tmp_path, number, load)
        ]
        assert len(set(texts)) == 42


@pytest.mark.parametrize("prompts", [PROMPTS, None])
def test_the_same_seed_deals_the_same_and_another_one_does_not(tmp_path, prompts):
    made = None if prompts else 5

    def dealt(seed):
        spec = spec_of(seed=seed, prompts=prompts, input_tokens=made)
        return sent(Deck(spec, lasting=False), spec, tmp_path, 1, 4)

    assert dealt(1) == dealt(1)
    assert dealt(1) != dealt(2)
