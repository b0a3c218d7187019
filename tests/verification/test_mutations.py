"""Planted faults: enumeration notices each of them, or it would prove nothing about the code."""

from __future__ import annotations

import math

import pytest
import torch

from specdecode.verification import Coins, Verification, block_verification, token_verification
from specdecode.verification.block import block_acceptance
from specdecode.verification.exact import (
    expected_accepted,
    joint_law,
    prefix_validity_error,
    sequence_law,
    total_variation,
)
from specdecode.verification.exact_kernel import kernel_law, kernel_rule, rejection_cells
from specdecode.verification.resampling import (
    inverse_cdf,
    last_accepted,
    leading_run,
    next_token_weights,
    passed,
)
from specdecode.verification.token import token_acceptance
from specdecode.verification.types import AcceptancePlan, DraftBlock
from specdecode.verification.validation import prepare
from tests.strategies import model_from_seed

GAMMA = 3
TARGET = model_from_seed(40, 3, kind="positive")
DRAFT = model_from_seed(41, 3, kind="positive")
SPARSE_TARGET = model_from_seed(44, 3, kind="zeros")


def build(acceptance, count, weights=next_token_weights):
    """A rule out of the package's parts, as a ``BlockLaw``."""

    def rule(draft_tokens, draft_probs, target_probs, coins, lengths=None, *, validate=True):
        block = prepare(draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate)
        plan = acceptance(block)
        kept = count(passed(coins.accept, plan.probability, block.lengths))
        return Verification(kept, inverse_cdf(weights(block, kept, plan.scale), coins.resample))

    return kernel_law(rule, rejection_cells(acceptance, weights))


def target_row_weights(block, kept, scale):
    """Fault: resamples from p itself."""
    rows = torch.arange(len(kept))
    return block.target_probs[rows, kept].expand(len(kept), -1)


def unscaled(acceptance):
    """Fault: the residual forgets p_τ."""

    def plan(block):
        real = acceptance(block)
        return AcceptancePlan(real.probability, torch.ones_like(real.scale))

    return plan


def softmax_weights(block, kept, scale):
    """Fault: the residual goes through a softmax."""
    return torch.softmax(next_token_weights(block, kept, scale), -1)


def bonus_one_row_early(block, kept, scale):
    """Fault: after full acceptance the bonus comes from row γ − 1."""
    weights = next_token_weights(block, kept, scale)
    early = block.target_probs[:, -2].expand_as(weights)
    return torch.where((kept == block.lengths)[:, None], early, weights)


def shifted(acceptance):
    """Fault: draft token i is judged by the target row after it."""

    def plan(block):
        rolled = block.target_probs.roll(-1, dims=1)
        return acceptance(DraftBlock(block.draft_tokens, block.draft_probs, rolled, block.lengths))

    return plan


def ratio_instead_of_look_ahead(block):
    """Fault: block verification accepts by p_i instead of h_i."""
    plan = block_acceptance(block)
    return AcceptancePlan(plan.scale[:, 1:], plan.scale)


MUTANTS = {
    "block: stop at the first rejection": build(block_acceptance, leading_run),
    "block: residual without p_τ": build(unscaled(block_acceptance), last_accepted),
    "block: p_i instead of h_i": build(ratio_instead_of_look_ahead, last_accepted),
    "block: residual = p": build(block_acceptance, last_accepted, target_row_weights),
    "block: softmaxed residual": build(block_acceptance, last_accepted, softmax_weights),
    "block: bonus from row γ − 1": build(block_acceptance, last_accepted, bonus_one_row_early),
    "block: acceptance off by one row": build(shifted(block_acceptance), last_accepted),
    "token: keep the longest prefix": build(token_acceptance, last_accepted),
    "token: residual = p": build(token_acceptance, leading_run, target_row_weights),
    "token: softmaxed residual": build(token_acceptance, leading_run, softmax_weights),
    "token: bonus from row γ − 1": build(token_acceptance, leading_run, bonus_one_row_early),
    "token: acceptance off by one row": build(shifted(token_acceptance), leading_run),
}


@pytest.mark.parametrize(
    ("acceptance", "count"), [(block_acceptance, last_accepted), (token_acceptance, leading_run)]
)
def test_the_parts_put_together_rightly_pass(acceptance, count):
    rule = build(acceptance, count)
    law = joint_law(rule, TARGET, DRAFT, GAMMA)

    assert total_variation(law, sequence_law(TARGET, GAMMA + 1)) < 1e-12
    assert prefix_validity_error(rule, TARGET, DRAFT, GAMMA) < 1e-12


@pytest.mark.parametrize("name", MUTANTS)
def test_each_planted_fault_bends_the_output_law(name):
    law = joint_law(MUTANTS[name], TARGET, DRAFT, GAMMA)

    assert total_variation(law, sequence_law(TARGET, GAMMA + 1)) > 1e-3
    assert prefix_validity_error(MUTANTS[name], TARGET, DRAFT, GAMMA) > 1e-3


@pytest.mark.parametrize(
    ("rule", "acceptance"),
    [(block_verification, block_acceptance), (token_verification, token_acceptance)],
)
def test_accepting_at_equality_bends_the_output_law(rule, acceptance):
    def not_strict(tokens, q, p, coins, lengths=None, *, validate=True):
        # u ≤ h is the strict comparison of the next smaller double.
        lower = torch.nextafter(coins.accept, torch.tensor(-math.inf, dtype=torch.float64))
        return rule(tokens, q, p, Coins(lower, coins.resample), lengths, validate=False)

    law = joint_law(
        kernel_law(not_strict, rejection_cells(acceptance)), SPARSE_TARGET, DRAFT, GAMMA
    )

    assert total_variation(law, sequence_law(SPARSE_TARGET, GAMMA + 1)) > 1e-3


def test_a_draft_law_other_than_the_one_drawn_from_bends_the_output_law():
    flat = tuple([1 / 3] * 3)
    honest = kernel_rule("token")

    def dishonest(block, draft_rows, target_rows):
        return honest(block, [flat] * len(block), target_rows)

    law = joint_law(dishonest, TARGET, DRAFT, GAMMA)

    assert total_variation(law, sequence_law(TARGET, GAMMA + 1)) > 1e-3


def test_stopping_at_the_first_rejection_costs_block_its_length():
    broken = expected_accepted(MUTANTS["block: stop at the first rejection"], TARGET, DRAFT, GAMMA)

    assert broken < expected_accepted(kernel_rule("block"), TARGET, DRAFT, GAMMA) - 1e-3
