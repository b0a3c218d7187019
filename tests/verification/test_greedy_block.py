"""Greedy block verification is lossless together with its modified target, and not without."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings

from specdecode.verification import (
    Coins,
    Verification,
    emitted_ratio,
    greedy_block_verification,
    modified_target,
)
from specdecode.verification.exact import joint_law, sequence_law, total_variation
from specdecode.verification.exact_kernel import kernel_rule
from specdecode.verification.exact_rules import EXACT_RULES, modified_model
from tests.strategies import model_pairs
from tests.verification.test_goldens import draft as toy_draft
from tests.verification.test_goldens import target as toy_target

GREEDY = EXACT_RULES["greedy-block"]


def kernel_modified_model(target, draft, gamma, prefix, emitted):
    """``modified_model`` computed by the package's tensor functions."""
    start, end = len(prefix) + len(emitted), len(prefix) + gamma

    def rows(model, path, count):
        return [[float(p) for p in model(path[: len(path) - count + i])] for i in range(count)]

    def law(path):
        if not start <= len(path) < end:
            return target(path)
        # The emitted tokens as the outcome of the earlier block, the rest of the path as a draft.
        tau, y, tail = len(emitted) - 1, emitted[-1], path[start:]
        before = path[: len(prefix)]
        block = torch.tensor([[*emitted[:-1], *[0] * (gamma - tau)]])
        q = [[float(p) for p in draft(path[: len(before) + i])] for i in range(tau + 1)]
        p = [[float(p) for p in target(path[: len(before) + i])] for i in range(tau + 1)]
        padding = [[float("nan")] * len(q[0])] * (gamma - tau - 1)
        ratio = emitted_ratio(
            block[:, :gamma],
            torch.tensor([q + padding], dtype=torch.float64),
            torch.tensor([p + padding + padding[:1]], dtype=torch.float64),
            Verification(torch.tensor([tau]), torch.tensor([y])),
        )
        width = len(tail) + 1
        new_q = [[float(p) for p in draft(path[: start + i])] for i in range(width)]
        new_p = [[float(p) for p in target(path[: start + i])] for i in range(width)]
        modified = modified_target(
            torch.tensor([[*tail, 0]]),
            torch.tensor([new_q], dtype=torch.float64),
            torch.tensor([[*new_p, new_p[-1]]], dtype=torch.float64),
            ratio,
            torch.tensor([width]),
        )
        return tuple(modified[0, width - 1].tolist())

    return law


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_oracle_is_exactly_lossless_over_iterations_with_the_modified_target(gamma):
    length = gamma + 2

    law = joint_law(
        GREEDY,
        toy_target,
        toy_draft,
        gamma,
        length=length,
        iterations=None,
        modify=modified_model,
    )

    assert total_variation(law, sequence_law(toy_target, length)) == 0


@settings(max_examples=25, deadline=None)
@given(pair=model_pairs(max_gamma=3))
def test_oracle_is_exactly_lossless_on_any_pair(pair):
    plain = sequence_law(pair.target, pair.gamma + 1)
    law = joint_law(
        GREEDY, pair.target, pair.draft, pair.gamma, iterations=None, modify=modified_model
    )

    assert total_variation(law, plain) == 0


@settings(max_examples=15, deadline=None)
@given(pair=model_pairs(max_gamma=3))
def test_kernel_is_lossless_with_the_package_s_own_modification(pair):
    plain = sequence_law(pair.target, pair.gamma + 1)
    law = joint_law(
        kernel_rule("greedy-block"),
        pair.target,
        pair.draft,
        pair.gamma,
        modify=kernel_modified_model,
    )

    assert total_variation(law, plain) < 1e-12


def test_modifications_of_successive_blocks_stack():
    law = joint_law(
        kernel_rule("greedy-block"),
        toy_target,
        toy_draft,
        3,
        length=5,
        iterations=3,
        modify=kernel_modified_model,
    )

    assert total_variation(law, sequence_law(toy_target, 5)) < 1e-12


@pytest.mark.parametrize(
    ("gamma", "distance"), [(1, Fraction(0)), (2, Fraction(1, 9)), (3, Fraction(1, 9))]
)
def test_without_the_modification_the_output_law_is_off(gamma, distance):
    law = joint_law(GREEDY, toy_target, toy_draft, gamma)

    assert total_variation(law, sequence_law(toy_target, gamma + 1)) == distance


def test_huge_ratios_stay_finite():
    tiny = 1e-300
    q = torch.tensor([[[tiny, 1.0]] * 4], dtype=torch.float64)
    p = torch.tensor([[[1.0, 0.0]] * 5], dtype=torch.float64)
    coins = Coins(torch.full((1, 4), 0.999), torch.tensor([0.5]))

    result = greedy_block_verification(torch.zeros(1, 4, dtype=torch.int64), q, p, coins)

    assert (result.num_accepted.item(), result.next_token.item()) == (4, 0)


def test_asking_for_more_modified_positions_than_the_block_has_names_the_row():
    q = torch.full((2, 1, 2), 0.5)
    p = torch.full((2, 2, 2), 0.5)
    tokens = torch.zeros(2, 1, dtype=torch.int64)

    with pytest.raises(ValueError, match="remaining, row 1: got 2"):
        modified_target(tokens, q, p, torch.ones(2).double(), torch.tensor([1, 2]))


def test_rows_beyond_the_remaining_ones_keep_the_target():
    q = torch.tensor([[[0.5, 0.5], [0.5, 0.5]]]).double()
    p = torch.tensor([[[0.2, 0.8], [0.3, 0.7], [0.4, 0.6]]]).double()

    rows = modified_target(
        torch.tensor([[1, 0]]), q, p, torch.tensor([1.5]).double(), torch.tensor([1])
    )

    # Row 0: (1.5 · (0.2, 0.8) − 0.5)_+ = (0, 0.7), normalised.
    assert rows[0, 0].tolist() == [0.0, 1.0]
    assert torch.equal(rows[0, 1:], p[0, 1:])
