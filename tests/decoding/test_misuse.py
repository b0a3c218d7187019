"""What a careless or hostile caller does: a plain error, or the right reply; never a wrong one."""

from __future__ import annotations

import pytest
from scipy.stats import chisquare

from specdecode import Engine, SamplingParams
from specdecode.decoding.costs import StepCosts
from specdecode.drafting.cascade import CascadeDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.drafting.suffix import SuffixDrafter
from specdecode.errors import ConfigError, NumericalError
from specdecode.models import load_model
from tests.decoding.toys import TableNetwork, ToyModel, joint_law
from tests.tiny_models import write_tiny_model

PROMPTS = [[5, 6, 7], [3, 4, 3, 4, 9]]
GREEDY = SamplingParams(max_tokens=20, temperature=0, ignore_eos=True)
SAMPLED = SamplingParams(max_tokens=20, seed=3, ignore_eos=True)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = write_tiny_model(tmp_path_factory.mktemp("target"), seed=1)
    return load_model(folder, device="cpu", dtype="float64")


def in_turn(streams):
    """Read streams one event at a time, each in its turn, until all have ended."""
    replies, open_ones = [[] for _ in streams], list(range(len(streams)))
    while open_ones:
        for index in list(open_ones):
            event = next(streams[index], None)
            if event is None:
                open_ones.remove(index)
            else:
                replies[index] += event.token_ids
    return [tuple(reply) for reply in replies]


DRAFTS = ["self-int8", "early-exit:1", "prompt-lookup", "cascade:suffix,self-int8"]


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_stream_that_lost_its_draft_to_another_call_ends_and_spoils_nothing(target, draft):
    engine = Engine.load(target, draft)
    alone = [tuple(t for e in engine.stream(p, SAMPLED) for t in e.token_ids) for p in PROMPTS]
    older, newer = (engine.stream(prompt, SAMPLED) for prompt in PROMPTS)
    begun = [next(older), next(newer)]

    with pytest.raises(ConfigError, match=r"before this one had ended.*an engine for each"):
        next(older)

    assert (*begun[1].token_ids, *(t for e in newer for t in e.token_ids)) == alone[1]
    assert [r.token_ids for r in engine.generate(PROMPTS, SAMPLED)] == alone


def test_streams_of_plain_decoding_may_be_read_in_turn(target):
    engine = Engine.load(target)
    alone = [r.token_ids for r in engine.generate(PROMPTS, SAMPLED)]

    assert in_turn([engine.stream(prompt, SAMPLED) for prompt in PROMPTS]) == alone


@pytest.mark.parametrize("draft", DRAFTS)
def test_engines_that_share_a_target_may_be_read_in_turn(target, draft):
    engines = [Engine.load(target, draft), Engine.load(target, "self-int4")]
    alone = [e.generate([p], SAMPLED)[0].token_ids for e, p in zip(engines, PROMPTS, strict=True)]
    streams = [e.stream(p, SAMPLED) for e, p in zip(engines, PROMPTS, strict=True)]

    assert in_turn(streams) == alone


class Interrupting(TableNetwork):
    """Raises in the given pass."""

    def __init__(self, at: int) -> None:
        super().__init__(1)
        self.left = at

    def forward(self, *args, **kwargs):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().forward(*args, **kwargs)


@pytest.mark.parametrize("at", [1, 2, 4])
def test_an_engine_is_as_good_as_new_after_an_exception(at):
    def engine(network):
        return Engine(ToyModel(network), SelfDrafter("self", TableNetwork(2)), "block", 3)

    params = SamplingParams(max_tokens=12, seed=5, n=2)
    interrupted = engine(Interrupting(at))
    with pytest.raises(KeyboardInterrupt):
        interrupted.generate([[0, 1]], params)

    again = interrupted.generate([[0, 1], [2]], params)

    fresh = engine(TableNetwork(1)).generate([[0, 1], [2]], params)
    assert [r.token_ids for r in again] == [r.token_ids for r in fresh]


def shared_suffix(size):
    return SuffixDrafter(size, TableNetwork.device, shortest=1, remember=1000)


def shared_cascade(size):
    middle = SelfDrafter("self", TableNetwork(2, 0.5, vocabulary=size))
    return CascadeDrafter("cascade", shared_suffix(size), middle)


@pytest.mark.parametrize("make", [shared_suffix, shared_cascade])
@pytest.mark.parametrize("rule", ["token", "block"])
def test_a_seed_decoded_again_beside_its_own_remembered_reply_keeps_the_law(make, rule):
    """Drafts from a reply made with the very coins that judge them would bias the second reply."""
    size, runs, prompt = 4, 500, [0]
    network = TableNetwork(1, 0.5, vocabulary=size)
    counts = dict.fromkeys(joint_law(network, prompt, 2), 0)
    for seed in range(runs):
        engine = Engine(ToyModel(network, vocab_size=size), make(size), rule, 3)
        params = SamplingParams(max_tokens=4, seed=seed)
        engine.generate([prompt], params)
        counts[engine.generate([prompt], params)[0].token_ids[:2]] += 1

    law = joint_law(network, prompt, 2)
    expected = [runs * p for p in law.values()]
    assert min(expected) > 5
    assert chisquare(list(counts.values()), expected).pvalue > 1e-4


def test_a_first_call_and_match_draw_what_they_drew_without_a_memory():
    def engine(drafter, rule):
        return Engine(ToyModel(TableNetwork(1)), drafter, rule, 3)

    params = SamplingParams(max_tokens=15, seed=4)
    for rule in ("block", "match"):
        shared, own = (SuffixDrafter(3, TableNetwork.device, remember=r) for r in (1000, 0))
        one, other = engine(shared, rule), engine(own, rule)
        expected = other.generate([[0, 1]], params)[0].token_ids
        assert other.generate([[0, 1]], params)[0].token_ids == expected
        assert one.generate([[0, 1]], params)[0].token_ids == expected
        second = one.generate([[0, 1]], params)[0].token_ids
        assert (second == expected) == (rule == "match")


@pytest.mark.parametrize("prompt", [b"\x03\x04", bytearray(b"\x03\x04"), memoryview(b"\x03\x04")])
def test_bytes_are_no_token_ids(target, prompt):
    with pytest.raises(ConfigError, match="prompt 0 is of type"):
        Engine.load(target).generate([prompt], GREEDY)


@pytest.mark.parametrize(
    "change", [{"max_tokens": 0}, {"n": 0}, {"n": 2}, {"temperatur": 0.5}, {"seed": -1}]
)
def test_a_copy_of_parameters_is_checked_like_new_ones(change):
    with pytest.raises(ConfigError, match=f"sampling parameter '{next(iter(change))}'"):
        GREEDY.model_copy(update=change)


def test_a_copy_of_parameters_keeps_the_others():
    params = SamplingParams(max_tokens=3, stop=("a", "b"), logit_bias={3: 1.0}, logprobs=2)
    changed = params.model_copy(update={"seed": 7})
    assert changed == SamplingParams(
        max_tokens=3, stop=("a", "b"), logit_bias={3: 1.0}, logprobs=2, seed=7
    )
    assert params.model_copy() == params


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("temperature", [0, 1])
def test_parameters_that_overflow_raise_in_greedy_decoding_too(target, dtype, temperature):
    model = load_model(target.path, device="cpu", dtype=dtype)
    bias = dict.fromkeys(range(model.vocab_size), -1.7e308)
    params = SamplingParams(temperature=temperature, logit_bias=bias, presence_penalty=1.7e308)
    with pytest.raises(NumericalError, match="no probability law"):
        Engine.load(model).generate([[3, 4]], params.model_copy(update={"max_tokens": 40}))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"draft": "early-exit:²"}, "K from 1 to 2"),
        ({"draft": 3}, "draft is of type int"),
        ({"verification": ["block"]}, "unknown verification"),
        ({"costs": "cheap"}, "costs are of type str"),
        ({"costs": [StepCosts((0.0,), (1.0,))]}, "costs are of type list"),
        ({"costs": {1: (1.0, 2.0)}}, "costs of batch size 1 are .*give StepCosts"),
    ],
)
def test_settings_of_a_wrong_kind_are_refused(target, arguments, says):
    if "costs" in arguments:
        arguments = {"num_speculative_tokens": "adaptive", "draft": "suffix", **arguments}
    with pytest.raises(ConfigError, match=says):
        Engine.load(target, **arguments)


def test_a_loaded_model_is_no_draft(target):
    with pytest.raises(ConfigError, match="draft is of type LoadedModel: give a spec"):
        Engine.load(target, target)


@pytest.mark.parametrize(("rule", "gamma"), [("blok", 3), ("block", 0), ("block", 65)])
def test_an_engine_made_by_hand_is_checked_as_well(rule, gamma):
    with pytest.raises(ConfigError):
        Engine(ToyModel(TableNetwork(1)), SelfDrafter("self", TableNetwork(2)), rule, gamma)
