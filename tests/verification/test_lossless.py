"""Output laws by enumeration: the tensor code and the fractions, on context-dependent models."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from specdecode.verification.exact import (
    accepted_law,
    emitted_law,
    expected_accepted,
    joint_law,
    overlap_bound,
    prefix_validity_error,
    sequence_law,
    total_variation,
)
from specdecode.verification.exact_kernel import kernel_rule
from specdecode.verification.exact_rules import EXACT_RULES
from tests.strategies import ModelPair, model_from_seed, model_pairs

LOSSLESS = ("token", "block", "match")
ALL = (*LOSSLESS, "greedy-block")


def fixed_pair(vocabulary, gamma, seed=7, target_kind="zeros", draft_kind="zeros"):
    target = model_from_seed(2 * seed, vocabulary, kind=target_kind)
    draft = (
        target
        if draft_kind == "identical"
        else model_from_seed(2 * seed + 1, vocabulary, kind=draft_kind)
    )
    return ModelPair(target, draft, vocabulary, gamma, f"{target_kind}/{draft_kind}")


CASES = [
    fixed_pair(2, 1),
    fixed_pair(2, 4, seed=1),
    fixed_pair(3, 3, seed=2, target_kind="positive", draft_kind="positive"),
    fixed_pair(4, 2, seed=3),
    fixed_pair(3, 2, seed=4, draft_kind="identical"),
    fixed_pair(3, 3, seed=5, draft_kind="one-hot"),
    fixed_pair(3, 3, seed=6, target_kind="one-hot", draft_kind="positive"),
    fixed_pair(2, 3, seed=8, target_kind="one-hot", draft_kind="one-hot"),
]


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("pair", CASES, ids=repr)
def test_oracle_output_law_is_exactly_the_targets(name, pair):
    rule = EXACT_RULES[name]
    plain = sequence_law(pair.target, pair.gamma + 1)

    assert total_variation(joint_law(rule, pair.target, pair.draft, pair.gamma), plain) == 0
    assert prefix_validity_error(rule, pair.target, pair.draft, pair.gamma) == 0


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("pair", CASES, ids=repr)
def test_kernel_output_law_is_the_targets(name, pair):
    check_kernel(name, pair)


@pytest.mark.parametrize("name", LOSSLESS)
@settings(max_examples=25, deadline=None)
@given(pair=model_pairs())
def test_kernel_output_law_is_the_targets_on_any_pair(name, pair):
    check_kernel(name, pair)


@pytest.mark.parametrize("name", ["token", "block"])
def test_kernel_is_lossless_at_the_largest_enumerated_size(name):
    check_kernel(name, fixed_pair(4, 4, seed=11, draft_kind="positive"))


def check_kernel(name, pair):
    rule = kernel_rule(name)
    law = joint_law(rule, pair.target, pair.draft, pair.gamma)
    plain = sequence_law(pair.target, pair.gamma + 1)

    for sequence in law.keys() | plain.keys():
        assert law.get(sequence, 0) == pytest.approx(float(plain.get(sequence, 0)), abs=1e-12)
    assert prefix_validity_error(rule, pair.target, pair.draft, pair.gamma) < 1e-12


@pytest.mark.parametrize("name", LOSSLESS)
def test_speculating_again_and_again_stays_lossless(name):
    pair = fixed_pair(2, 2, seed=9, target_kind="positive")

    law = joint_law(EXACT_RULES[name], pair.target, pair.draft, 2, length=5, iterations=None)

    assert total_variation(law, sequence_law(pair.target, 5)) == 0


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=25, deadline=None)
@given(pair=model_pairs())
def test_kernel_and_oracle_emit_the_same_law(name, pair):
    kernel = emitted_law(kernel_rule(name), pair.target, pair.draft, pair.gamma)
    oracle = emitted_law(EXACT_RULES[name], pair.target, pair.draft, pair.gamma)

    assert total_variation(kernel, oracle) < 1e-12


@settings(max_examples=60, deadline=None)
@given(pair=model_pairs())
def test_block_keeps_at_least_as_many_tokens_as_token_and_no_more_than_the_bound(pair):
    models = pair.target, pair.draft, pair.gamma
    token = expected_accepted(EXACT_RULES["token"], *models)
    block = expected_accepted(EXACT_RULES["block"], *models)
    greedy = expected_accepted(EXACT_RULES["greedy-block"], *models)
    match = expected_accepted(EXACT_RULES["match"], *models)

    assert match <= token <= block <= greedy == overlap_bound(*models)


@settings(max_examples=30, deadline=None)
@given(pair=model_pairs(draft_kinds=("one-hot",)))
def test_one_hot_drafts_leave_block_nothing_to_gain(pair):
    models = pair.target, pair.draft, pair.gamma
    token = expected_accepted(EXACT_RULES["token"], *models)

    assert expected_accepted(EXACT_RULES["block"], *models) == token
    assert expected_accepted(EXACT_RULES["match"], *models) == token
    assert float(expected_accepted(kernel_rule("block"), *models)) == pytest.approx(float(token))


@settings(max_examples=30, deadline=None)
@given(pair=model_pairs(target_kinds=("one-hot",)))
def test_temperature_zero_leaves_block_nothing_to_gain(pair):
    models = pair.target, pair.draft, pair.gamma

    assert expected_accepted(EXACT_RULES["block"], *models) == expected_accepted(
        EXACT_RULES["token"], *models
    )


@settings(max_examples=30, deadline=None)
@given(pair=model_pairs(max_gamma=1))
def test_one_draft_token_makes_block_and_token_the_same(pair):
    models = pair.target, pair.draft, 1

    assert emitted_law(EXACT_RULES["block"], *models) == emitted_law(EXACT_RULES["token"], *models)


@settings(max_examples=30, deadline=None)
@given(pair=model_pairs(draft_kinds=("identical",)))
def test_a_draft_equal_to_the_target_is_always_kept(pair):
    models = pair.target, pair.draft, pair.gamma

    for name in ("token", "block", "greedy-block"):
        law = accepted_law(kernel_rule(name), *models)
        assert float(law[-1]) == pytest.approx(1, abs=1e-12)
