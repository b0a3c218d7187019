"""Greedy block verification in the engine: the exact law of whole replies, and its refusals."""

from __future__ import annotations

import itertools

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding import modification
from specdecode.decoding.costs import CostTable, StepCosts
from specdecode.decoding.intake import make_requests
from specdecode.decoding.modification import CarriedModifications, Modification, verify_modified
from specdecode.drafting import Proposal
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import ConfigError, EngineError
from specdecode.verification import RULES, Coins
from tests.decoding.enumeration import ScriptedDrafter, distance, reply_law
from tests.decoding.toys import TableNetwork, ToyModel

PROMPT = [0, 1, 1, 0, 1]


def pair(seed=1, vocabulary=2):
    return [
        TableNetwork(seed + i, vocabulary=vocabulary, dtype=torch.float64, sharpness=1.0)
        for i in range(2)
    ]


def engine_with(gamma, seed=1, vocabulary=2, costs=None):
    target, draft = pair(seed, vocabulary)
    model = ToyModel(target, vocab_size=vocabulary)
    return Engine(model, ScriptedDrafter(draft), "greedy-block", gamma, costs), target


@pytest.mark.parametrize(
    ("gamma", "length", "vocabulary"), [(1, 4, 2), (2, 5, 2), (3, 5, 2), (4, 6, 2), (2, 4, 3)]
)
def test_replies_follow_the_target_exactly(gamma, length, vocabulary, monkeypatch):
    engine, target = engine_with(gamma, vocabulary=vocabulary)

    law, runs = reply_law(engine, PROMPT, length, monkeypatch)

    assert runs > 10
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert distance(law, target, PROMPT) < 1e-12


@pytest.mark.parametrize("gamma", [2, 3])
def test_without_the_modified_target_they_do_not(gamma, monkeypatch):
    engine, target = engine_with(gamma)
    monkeypatch.setattr(
        modification,
        "verify_modified",
        lambda rule, proposal, laws, coins, carried: (
            verify_modified(rule, proposal, laws, coins, [[] for _ in carried])[0],
            [[] for _ in carried],
        ),
    )

    law, _ = reply_law(engine, PROMPT, 5, monkeypatch)

    assert distance(law, target, PROMPT) > 1e-3


@pytest.mark.parametrize(
    "forget",
    [
        lambda m: m[-1:],  # the older blocks
        lambda m: m[:1],  # the younger blocks
        lambda m: m[::-1],  # the order
        lambda m: [Modification(1.0, x.remaining) for x in m],  # the path since the block's start
        lambda m: [Modification(x.ratio, x.remaining - 1) for x in m if x.remaining > 1],  # the end
    ],
    ids=["older", "younger", "order", "ratio", "end"],
)
def test_each_part_of_what_is_carried_counts(forget, monkeypatch):
    engine, target = engine_with(4)

    def forgetful(*arguments):
        outcome, after = verify_modified(*arguments)
        return outcome, [forget(m) for m in after]

    monkeypatch.setattr(modification, "verify_modified", forgetful)

    law, _ = reply_law(engine, PROMPT, 6, monkeypatch)

    assert distance(law, target, PROMPT) > 1e-5


def test_a_chosen_length_never_falls_below_what_is_left_to_modify(monkeypatch):
    """Costs that change the wanted length in every step, 0 included."""
    steep = StepCosts((0.0, 0.4, 0.8, 1.2), (1.0, 1.0, 1.0, 1.0))
    engine, target = engine_with(3, costs=CostTable(3, {1: steep}))

    law, runs = reply_law(engine, PROMPT, 5, monkeypatch)

    assert runs > 20
    assert distance(law, target, PROMPT) < 1e-12


def test_rows_in_different_states_do_not_mix():
    target, draft = pair(vocabulary=3)
    model = ToyModel(target, vocab_size=3)
    engine = Engine(model, SelfDrafter("self", draft), "greedy-block", 4)
    prompts = [[0, 1], [2, 2, 1], [1], [0, 0, 2, 1]]
    params = [SamplingParams(max_tokens=7 + 5 * i, seed=i) for i in range(4)]

    together = engine.generate(prompts, params, trace=True)

    alone = [engine.generate([p], q)[0] for p, q in zip(prompts, params, strict=True)]
    assert [r.token_ids for r in together] == [r.token_ids for r in alone]
    assert [r.acceptance for r in together] == [r.acceptance for r in alone]


def test_a_row_s_modifications_do_not_depend_on_deeper_rows():
    torch.manual_seed(0)
    laws = torch.rand(2, 5, 3, dtype=torch.float64).softmax(-1)
    drafts = torch.rand(2, 4, 3, dtype=torch.float64).softmax(-1)
    tokens = torch.tensor([[0, 1, 2, 0], [2, 1, 0, 1]])
    coins = Coins(torch.rand(2, 4).double(), torch.rand(2).double())
    states = [[Modification(0.8, 2)], [Modification(1.7, 3), Modification(0.6, 4)]]
    rule = RULES["greedy-block"]

    both, after = verify_modified(rule, Proposal(tokens, drafts, [4, 4]), laws, coins, states)

    for row in range(2):
        one = slice(row, row + 1)
        proposal = Proposal(tokens[one], drafts[one], [4])
        single = Coins(coins.accept[one], coins.resample[one])
        outcome, state = verify_modified(rule, proposal, laws[one], single, [states[row]])
        assert outcome.num_accepted.item() == both.num_accepted[row].item()
        assert outcome.next_token.item() == both.next_token[row].item()
        assert state == [after[row]]


def test_what_is_left_counts_down_by_the_tokens_emitted():
    """γ = 4 and nothing kept leaves 3 positions, an older claim on 2 leaves 1, one on 1 is over."""
    laws = torch.tensor([[[0.0, 1.0]] * 5], dtype=torch.float64)
    drafts = torch.tensor([[[1.0, 0.0]] * 4], dtype=torch.float64)
    proposal = Proposal(torch.zeros(1, 4, dtype=torch.int64), drafts, [4])
    coins = Coins(torch.full((1, 4), 0.5), torch.tensor([0.5]))

    _, after = verify_modified(
        RULES["greedy-block"], proposal, laws, coins, [[Modification(1.0, 1), Modification(1.0, 2)]]
    )

    assert [m.remaining for m in after[0]] == [1, 3]


def test_a_drafter_that_falls_silent_while_positions_are_left_is_an_error():
    target, _ = pair()
    carried = CarriedModifications()
    (request,) = make_requests(ToyModel(target, vocab_size=2), [PROMPT], None)
    carried._of[request] = [Modification(1.2, 3)]
    proposal = Proposal(torch.tensor([[0]]), torch.full((1, 1, 2), 0.5), [1])
    coins = Coins(torch.tensor([[0.5]]), torch.tensor([0.5]))

    with pytest.raises(EngineError, match=r"row 0: the drafter proposed 1 tokens .* 3 positions"):
        carried.verify(
            RULES["greedy-block"], [request], proposal, torch.full((1, 2, 2), 0.5), coins
        )


@pytest.mark.parametrize("window", [8, 9, 12])
def test_a_draft_that_outgrows_its_context_window_leaves_nothing_unmodified(window):
    target, draft = pair(vocabulary=3)
    drafter = ModelDrafter("model", draft, max_context=window)
    engine = Engine(ToyModel(target, vocab_size=3), drafter, "greedy-block", 4)

    results = engine.generate(
        [PROMPT] * 50, [SamplingParams(max_tokens=20, seed=s) for s in range(50)]
    )

    assert all(len(r.token_ids) == 20 for r in results)


def test_a_drafter_without_a_law_at_every_position_is_refused():
    target, _ = pair()
    lookup = PromptLookupDrafter(2, torch.device("cpu"))

    with pytest.raises(ConfigError, match="'prompt-lookup' may propose nothing: use 'block'"):
        Engine(ToyModel(target, vocab_size=2), lookup, "greedy-block", 4)


def test_greedy_replies_are_plain_decodings():
    target, draft = pair(vocabulary=3)
    params = SamplingParams(max_tokens=30, temperature=0)
    plain = Engine(ToyModel(target, vocab_size=3), None, "greedy-block", 4)
    engine = Engine(ToyModel(target, vocab_size=3), SelfDrafter("self", draft), "greedy-block", 4)

    prompts = [list(p) for p in itertools.product(range(3), repeat=2)]

    assert [r.token_ids for r in engine.generate(prompts, params)] == [
        r.token_ids for r in plain.generate(prompts, params)
    ]
