"""Adaptive draft length in the engine: exact law of replies, counts, costs, independence."""

from __future__ import annotations

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding.costs import CostTable, StepCosts
from specdecode.decoding.lengths import Lengths
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import ConfigError
from specdecode.models import load_model
from tests.decoding.enumeration import ScriptedDrafter, distance, reply_law
from tests.decoding.toys import TableNetwork, ToyModel
from tests.tiny_models import write_tiny_model

PROMPT = [0, 1, 1, 0, 1]
CHEAP = StepCosts(tuple(0.05 * g for g in range(17)), (1.0,) * 17)
DEAR = StepCosts(tuple(0.6 * g for g in range(17)), (1.0,) * 17)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("adaptive")
    return (
        write_tiny_model(base / "target", seed=1),
        write_tiny_model(base / "draft", seed=2),
    )


@pytest.fixture(scope="module")
def target(folders):
    return load_model(folders[0], device="cpu", dtype="float64")


def scripted(rule="block", gamma=3, costs=None, engine=Engine):
    networks = [TableNetwork(s, vocabulary=2, dtype=torch.float64, sharpness=1.0) for s in (1, 2)]
    model = ToyModel(networks[0], vocab_size=2)
    return engine(model, ScriptedDrafter(networks[1]), rule, gamma, costs), networks[0]


class Recorder:
    """Remembers the lengths wanted in every step."""

    def __init__(self, monkeypatch):
        self.seen = set()
        plain = Lengths.wanted

        def wanted(lengths, requests):
            chosen = plain(lengths, requests)
            self.seen |= set(chosen)
            return chosen

        monkeypatch.setattr(Lengths, "wanted", wanted)


@pytest.mark.parametrize("ratio", [0.1, 0.4])
def test_replies_follow_the_target_exactly(ratio, monkeypatch):
    costs = StepCosts(tuple(ratio * g for g in range(4)), (1.0, 1.0, 1.0, 1.0))
    engine, network = scripted(costs=CostTable(3, {1: costs}))
    lengths = Recorder(monkeypatch)

    law, runs = reply_law(engine, PROMPT, 6, monkeypatch)

    assert runs > 50
    assert len(lengths.seen) > 2
    assert distance(law, network, PROMPT) < 1e-12


class Erratic:
    """A length that depends on all that happened before the step."""

    def __init__(self):
        self.past = []

    def choose(self, seconds, most):
        mixed = sum((i + 2) * (3 * d + 5 * k) for i, (d, k) in enumerate(self.past))
        return min(most, (mixed + 2) % 4)

    def observe(self, drafted, kept):
        self.past.append((drafted, kept))


class ErraticEngine(Engine):
    def _lengths(self, requests):
        return Lengths(requests, lambda _request: Erratic(), lambda _size: ())


@pytest.mark.parametrize("rule", ["block", "greedy-block"])
def test_any_length_that_looks_back_only_is_lossless(rule, monkeypatch):
    engine, network = scripted(rule, engine=ErraticEngine)

    law, _ = reply_law(engine, PROMPT, 6, monkeypatch)

    assert distance(law, network, PROMPT) < 1e-12


class Dropping(ScriptedDrafter):
    """Planted fault: drops its last token after looking at it."""

    def propose(self, contexts, wanted, sample):
        proposal = super().propose(contexts, wanted, sample)
        lengths = [
            length - (length > 0 and int(proposal.tokens[row, length - 1]) == 0)
            for row, length in enumerate(proposal.lengths)
        ]
        return type(proposal)(proposal.tokens, proposal.probs, lengths)


def test_a_length_that_looks_at_the_block_s_own_tokens_is_seen(monkeypatch):
    engine, network = scripted()
    engine.drafter = Dropping(engine.drafter.network)

    law, _ = reply_law(engine, PROMPT, 5, monkeypatch)

    assert distance(law, network, PROMPT) > 1e-3


def make(target, folders, draft, rule="block", costs=CHEAP):
    spec = str(folders[1]) if draft == "model" else draft
    return Engine.load(
        target,
        spec,
        verification=rule,
        num_speculative_tokens="adaptive",
        costs=None if costs is None else {1: costs},
    )


PROMPTS = [[5, 6, 7], [3, 4, 3, 4, 3, 4, 3], [9], [8, 2, 10, 11, 12, 8, 2, 10, 11]]


@pytest.mark.parametrize("draft", ["self-int4", "early-exit:1", "prompt-lookup", "model"])
@pytest.mark.parametrize("costs", [CHEAP, DEAR, None])
def test_match_gives_plain_decodings_tokens_whatever_the_lengths(target, folders, draft, costs):
    params = SamplingParams(max_tokens=40, seed=11, temperature=0.9)
    plain = Engine.load(target).generate(PROMPTS, params)

    found = make(target, folders, draft, "match", costs).generate(PROMPTS, params)

    assert [r.token_ids for r in found] == [r.token_ids for r in plain]


@pytest.mark.parametrize("draft", ["early-exit:2", "model", "prompt-lookup"])
def test_with_equal_costs_a_row_does_not_depend_on_its_neighbours(target, folders, draft):
    engine = make(target, folders, draft)
    params = [SamplingParams(max_tokens=20 + 5 * i, seed=i, temperature=0.7) for i in range(4)]

    together = engine.generate(PROMPTS, params)

    alone = [engine.generate([p], q)[0] for p, q in zip(PROMPTS, params, strict=True)]
    assert [r.token_ids for r in together] == [r.token_ids for r in alone]
    assert [r.acceptance for r in together] == [r.acceptance for r in alone]


def test_measured_costs_given_to_another_engine_give_the_same_replies(target, folders):
    params = SamplingParams(max_tokens=40, seed=3)
    first = make(target, folders, "early-exit:2", costs=None)
    replies = first.generate(PROMPTS[:3], params, trace=True)

    second = Engine.load(
        target, "early-exit:2", num_speculative_tokens="adaptive", costs=first.costs
    )

    assert sorted(first.costs) == [1, 2, 4]
    again = second.generate(PROMPTS[:3], params, trace=True)
    assert [r.token_ids for r in again] == [r.token_ids for r in replies]
    assert [r.acceptance for r in again] == [r.acceptance for r in replies]


@pytest.mark.parametrize("draft", ["early-exit:2", "prompt-lookup", "model"])
def test_counts_add_up_when_the_length_changes(target, folders, draft):
    params = SamplingParams(max_tokens=60, seed=5, ignore_eos=True, temperature=0.6)

    result = make(target, folders, draft).generate([PROMPTS[1]], params, trace=True)[0]

    a, lengths = result.acceptance, [len(step.draft_tokens) for step in result.trace]
    assert len(a.histogram) == 17
    assert a.drafted == sum(lengths)
    assert a.steps == sum(a.histogram) == len(result.trace)
    assert 1 + a.accepted + a.steps == 60
    assert result.target_tokens == a.drafted + a.steps
    assert len(set(lengths[:-3])) > 1


def test_the_same_model_as_draft_reaches_the_longest_length(target, folders):
    engine = Engine.load(
        target, str(folders[0]), num_speculative_tokens="adaptive", costs={1: CHEAP}
    )

    result = engine.generate(
        [PROMPTS[0]], SamplingParams(max_tokens=200, seed=1, ignore_eos=True), trace=True
    )[0]

    lengths = [len(step.draft_tokens) for step in result.trace]
    assert result.acceptance.acceptance_rate == 1
    assert lengths[0] < 16
    assert set(lengths[3:-1]) == {16}


def test_a_draft_dearer_than_the_target_is_hardly_used(target, folders):
    hopeless = StepCosts(tuple(1.5 * g for g in range(17)), (1.0,) * 17)

    result = make(target, folders, "model", costs=hopeless).generate(
        [PROMPTS[0]], SamplingParams(max_tokens=200, seed=1, ignore_eos=True)
    )[0]

    assert result.acceptance.drafted < 20


def test_a_row_that_pauses_beside_one_that_drafts_keeps_its_draft_state():
    """A pause used to make the drafter forget the row and read its whole context again."""

    class Counting(TableNetwork):
        fed = 0

        def forward(self, tokens, starts, cache, select=None):
            self.fed += tokens.shape[1]
            return super().forward(tokens, starts, cache, select)

    network = Counting(2)
    drafter = ModelDrafter("model", network, max_context=200)
    from specdecode.models import KVCache

    def uniform(logits, drawn, index):
        return logits.argmax(-1), logits.softmax(-1)

    contexts = [[0, 1, 2] * 30, [1, 2, 0] * 30]
    drafter.begin(2, 200, KVCache(2, 0))
    drafter.propose(contexts, [3, 3], uniform)
    drafter.propose(contexts, [3, 0], uniform)
    network.fed = 0

    drafter.propose(contexts, [3, 3], uniform)

    assert network.fed <= 6


def test_a_lookup_that_finds_nothing_is_not_held_against_it():
    target = TableNetwork(1)
    lookup = PromptLookupDrafter(3, torch.device("cpu"), longest=60, shortest=60)
    engine = Engine(ToyModel(target), lookup, "block", 16, CostTable(16, {1: DEAR}))

    result = engine.generate([[0, 1]], SamplingParams(max_tokens=30, seed=1))[0]

    assert result.acceptance.drafted == 0
    assert result.acceptance.steps == 29


def test_plain_decoding_ignores_it(target):
    engine = Engine.load(target, num_speculative_tokens="adaptive")

    assert engine.costs == {}
    assert engine.generate([PROMPTS[0]])[0].acceptance.drafted == 0


def test_a_fixed_length_measures_nothing(target):
    engine = Engine(target, SelfDrafter("self", target.network), "block", 4)
    engine.generate([PROMPTS[0]], SamplingParams(max_tokens=4))

    assert engine.costs == {}


def test_costs_without_adaptive_are_refused(target):
    with pytest.raises(ConfigError, match="adaptive"):
        Engine.load(target, "self-int8", costs={1: CHEAP})
