"""Several replies to one prompt: independent, in order, for one pass over the prompt."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from specdecode import Engine, SamplingParams
from specdecode.decoding.coins import CoinStream, Purpose
from specdecode.errors import ConfigError
from specdecode.models import load_model
from tests.decoding.drafters import toy_drafters
from tests.decoding.toys import TableNetwork, ToyModel, joint_law
from tests.tiny_models import write_tiny_model

PROMPTS = [[0, 1, 2, 0, 1], [2, 1]]
DRAFTERS = {"none": lambda: None, **toy_drafters(dtype=torch.float32)}


class CountingNetwork(TableNetwork):
    """Counts the tokens it is fed."""

    fed = 0

    def forward(self, tokens, starts, cache, select=None):
        self.fed += tokens.numel()
        return super().forward(tokens, starts, cache, select)


def engine(drafter="none", rule="block", network=None) -> Engine:
    return Engine(ToyModel(network or TableNetwork(1)), DRAFTERS[drafter](), rule, 3)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_reply_zero_is_the_only_reply_of_n_1(drafter, rule):
    params = SamplingParams(max_tokens=10, seed=3)
    single = engine(drafter, rule).generate(PROMPTS, params)

    several = engine(drafter, rule).generate(PROMPTS, params.model_copy(update={"n": 4}))

    assert [r.sample_index for r in several] == [0, 1, 2, 3] * 2
    assert [r.prompt_token_ids for r in several] == [tuple(PROMPTS[0])] * 4 + [
        tuple(PROMPTS[1])
    ] * 4
    assert [r.token_ids for r in several[::4]] == [r.token_ids for r in single]
    assert {r.seed for r in several} == {3}
    assert len({r.token_ids for r in several[:4]}) == 4


@pytest.mark.parametrize("drafter", ["none", "shared-cache"])
def test_replies_follow_the_joint_law_and_are_independent(drafter):
    """Pairs (reply 0, reply 1) of two tokens each against the product of their laws."""
    runs, length = 3000, 2
    each = [SamplingParams(max_tokens=length, seed=seed, n=2) for seed in range(runs)]

    results = engine(drafter).generate([PROMPTS[0]] * runs, each)

    law = joint_law(TableNetwork(1), PROMPTS[0], length)
    index = {reply: i for i, reply in enumerate(law)}
    counts = np.zeros((len(law), len(law)))
    for first, second in zip(results[::2], results[1::2], strict=True):
        counts[index[first.token_ids], index[second.token_ids]] += 1
    p = np.array(list(law.values()))
    expected = runs * np.outer(p, p)
    often = expected > 5
    found = np.append(counts[often], counts[~often].sum())
    assert chisquare(found, np.append(expected[often], expected[~often].sum())).pvalue > 1e-4


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_equal_prompts_are_processed_once(drafter):
    network = CountingNetwork(1)
    params = SamplingParams(max_tokens=1, seed=1)  # the prompt's own pass and no other

    engine(drafter, network=network).generate([PROMPTS[0]], params.model_copy(update={"n": 8}))
    assert network.fed == len(PROMPTS[0])

    network.fed = 0
    engine(drafter, network=network).generate([PROMPTS[0]] * 5 + [PROMPTS[0][::-1]], params)
    assert network.fed == 2 * len(PROMPTS[0])


def test_each_reply_is_the_same_whoever_shares_its_prompt():
    each = [SamplingParams(max_tokens=12, seed=seed, n=n) for seed, n in ((1, 2), (2, 1), (1, 3))]
    prompts = [PROMPTS[0], PROMPTS[1], PROMPTS[0]]
    together = engine("shared-cache").generate(prompts, each)

    alone = [
        result
        for prompt, params in zip(prompts, each, strict=True)
        for result in engine("shared-cache").generate([prompt], params)
    ]

    assert [r.token_ids for r in together] == [r.token_ids for r in alone]
    assert [r.sample_index for r in together] == [0, 1, 0, 0, 1, 2]


@pytest.mark.parametrize("draft", [None, "self-int4", "prompt-lookup"])
def test_each_reply_continues_the_state_of_its_own_prompt(tmp_path, draft):
    """A transformer looks at the whole prompt: a state copied to the wrong row would show."""
    model = load_model(write_tiny_model(tmp_path, "llama", seed=1), device="cpu", dtype="float64")
    tool = Engine.load(model, draft)
    prompts = [[5, 6, 7], [8, 2, 8, 2, 8], [5, 6, 7], [3, 4, 9, 10]]
    each = [SamplingParams(max_tokens=8, seed=seed, n=1 + seed % 3) for seed in range(4)]

    together = tool.generate(prompts, each)

    alone = [
        tool.generate([prompt], params.model_copy(update={"n": 1}))[0]
        for prompt, params in zip(prompts, each, strict=True)
    ]
    assert [r.token_ids for r in together if r.sample_index == 0] == [r.token_ids for r in alone]


def test_a_drawn_seed_is_shared_by_the_replies_and_reported():
    params = SamplingParams(max_tokens=20, n=3)
    first = engine().generate([PROMPTS[0]], params)

    again = engine().generate([PROMPTS[0]], params.model_copy(update={"seed": first[0].seed}))

    assert [r.token_ids for r in again] == [r.token_ids for r in first]


def test_greedy_decoding_has_one_reply():
    with pytest.raises(ConfigError, match=r"'n': .*equal replies.*n=1"):
        SamplingParams(n=2, temperature=0)


def test_a_stream_is_one_reply():
    with pytest.raises(ConfigError, match="n=2: a stream is one reply"):
        next(engine().stream(PROMPTS[0], SamplingParams(n=2)))


def test_streams_of_replies_differ_and_the_first_is_todays():
    def draw(seed, prompt, *index):
        return CoinStream(seed, prompt, *index).draw(Purpose.TARGET, 3, 1)[0]

    assert draw(7, [1, 2], 0) == draw(7, [1, 2])
    draws = {draw(7, [1, 2], index) for index in range(64)}
    # A reply's index must not read like one more prompt token.
    draws |= {draw(7, [1, 2, index]) for index in range(64)}
    assert len(draws) == 128


def test_the_streams_of_released_versions_stay():
    """A golden value: replies recorded with a seed must be reproducible later."""
    assert CoinStream(7, [1, 2]).draw(Purpose.DRAFT, 5, 1)[0] == 0.4528122336953393
