"""From logits to laws: against transformers' own processors, and by their definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specdecode import SamplingParams
from specdecode.decoding.distributions import distributions
from specdecode.errors import ConfigError

LOGITS = torch.randn(6, 40, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 3
CONTEXTS = [[1, 2, 3], [4, 4], [5], [39, 0], [7, 8, 9, 7], [1]]


@settings(max_examples=60, deadline=None)
@given(
    temperature=st.floats(0.1, 3),
    top_k=st.integers(0, 45),
    top_p=st.floats(0.05, 1),
    min_p=st.floats(0, 0.9),
    penalty=st.floats(0.5, 3),
)
def test_agrees_with_transformers_processors(temperature, top_k, top_p, min_p, penalty):
    params = SamplingParams(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=penalty,
    )
    steps = [RepetitionPenaltyLogitsProcessor(penalty), TemperatureLogitsWarper(temperature)]
    if top_k:
        steps.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        steps.append(TopPLogitsWarper(top_p))
    if min_p:
        steps.append(MinPLogitsWarper(min_p))
    theirs = torch.stack(
        [
            LogitsProcessorList(steps)(torch.tensor([c]), row[None].clone())[0].softmax(-1)
            for row, c in zip(LOGITS, CONTEXTS, strict=True)
        ]
    )

    ours = distributions(LOGITS, params, CONTEXTS)

    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


def test_temperature_zero_is_a_point_mass_on_the_lowest_of_equal_tokens():
    logits = torch.tensor([[1.0, 5.0, 5.0, 2.0]])
    assert distributions(logits, SamplingParams(temperature=0)).tolist() == [[0, 1, 0, 0]]


def test_presence_and_frequency_count_the_reply_alone():
    logits = torch.zeros(1, 4)
    params = SamplingParams(presence_penalty=1.0, frequency_penalty=0.5)

    law = distributions(logits, params, [[0, 1, 2, 2]], prompt_length=2)

    expected = torch.tensor([[0.0, 0.0, -2.0, 0.0]]).softmax(-1)  # 1 + 2 x 0.5 for token 2
    torch.testing.assert_close(law, expected)


def test_a_bias_of_minus_a_hundred_bans_a_token():
    law = distributions(LOGITS.float(), SamplingParams(logit_bias={3: -1e4}))
    assert (law[:, 3] == 0).all()


@settings(max_examples=60, deadline=None)
@given(
    scale=st.floats(0.01, 50),
    top_k=st.integers(0, 40),
    top_p=st.floats(0.01, 1),
    min_p=st.floats(0, 1),
    greedy=st.booleans(),
)
def test_every_row_is_a_law(scale, top_k, top_p, min_p, greedy):
    params = SamplingParams(temperature=0 if greedy else 1, top_k=top_k, top_p=top_p, min_p=min_p)
    law = distributions((LOGITS * scale).float(), params)
    assert (law >= 0).all()
    torch.testing.assert_close(law.sum(-1), torch.ones(6))


def test_top_p_keeps_the_token_that_reaches_it():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    law = distributions(logits, SamplingParams(top_p=0.6))
    torch.testing.assert_close(law, torch.tensor([[0.625, 0.375, 0.0]]))


def test_penalties_without_history_are_refused():
    with pytest.raises(ConfigError, match="one context per row"):
        distributions(LOGITS, SamplingParams(repetition_penalty=1.2))


def test_a_bias_outside_the_vocabulary_is_refused():
    with pytest.raises(ConfigError, match=r"outside 0\.\.39"):
        distributions(LOGITS, SamplingParams(logit_bias={40: 1.0}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", 1e-40),
        ("logit_bias", {3: float("inf")}),
        ("logit_bias", {3: float("nan")}),
        ("top_p", 0),
        ("top_p", 1.5),
        ("top_k", -1),
        ("min_p", 2),
        ("max_tokens", 0),
        ("seed", -1),
        ("repetition_penalty", 0),
        ("stop", ("",)),
        ("logprobs", 21),
        ("logprobs", -1),
        ("n", 0),
        ("n", 65),
        ("temprature", 1),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=f"sampling parameter '{name}"):
        SamplingParams(**{name: value})


def test_a_vanishing_top_p_keeps_the_most_likely_token():
    law = distributions(LOGITS.float(), SamplingParams(top_p=1e-30))
    assert torch.equal(law.argmax(-1), LOGITS.argmax(-1))
    torch.testing.assert_close(law.sum(-1), torch.ones(6))
