"""The state of a node at the edges: laws used up, nothing left to correct, rounding."""

from __future__ import annotations

import torch

from specdecode.verification import Coins, DraftTree, traversal_verification
from specdecode.verification.remainder import Remainder, without
from specdecode.verification.traversal import keep_first, traverse
from tests.verification.tree_inputs import SHAPES, tree_inputs


def double(*values):
    return torch.tensor([values], dtype=torch.float64)


def state(target, draft, ratio=1.0):
    return Remainder(double(*target), double(*draft), double(ratio)[0])


FIRST, SECOND, REAL = torch.tensor([0]), torch.tensor([1]), torch.tensor([True])


def test_the_rest_of_a_law_close_to_one_token_is_not_lost_to_rounding():
    # 1 − (1 − 1e-12) is 1.00009e-12: the rest would weigh 0.9999.
    rest = without(double(1 - 1e-12, 0.25e-12, 0.75e-12), FIRST)

    assert torch.equal(rest, double(0, 0.25, 0.75))


def test_a_law_used_up_is_zero_and_passes_no_token_the_target_excludes():
    left = state((0.0, 0.5, 0.5), (1.0, 0.0, 0.0)).rejected(FIRST, REAL)

    assert left.draft.tolist() == [[0.0, 0.0, 0.0]]
    assert left.acceptance(FIRST).item() == 0
    assert left.acceptance(SECOND).item() == 1


def test_a_node_with_nothing_left_to_correct_is_kept_surely():
    left = state((0.5, 0.5), (0.5, 0.5)).rejected(FIRST, REAL)

    assert left.ratio.item() == 1
    assert left.target.tolist() == [[0.5, 0.5]]


def test_a_node_that_could_not_be_kept_stays_so():
    left = state((0.5, 0.5), (0.5, 0.5), ratio=0.0).rejected(FIRST, REAL)

    assert left.ratio.item() == 0
    assert left.target.tolist() == [[0.5, 0.5]]


def test_a_rejection_by_the_formula():
    # p_v T − Q = (1/2·1/2 − 1/8, 1/2·1/4 − 1/2, 1/2·1/4 − 3/8): R = 1/8, p_v = (1/8) / (5/8).
    left = state((0.5, 0.25, 0.25), (0.125, 0.5, 0.375), ratio=0.5).rejected(SECOND, REAL)

    assert left.target.tolist() == [[1.0, 0.0, 0.0]]
    assert left.ratio.item() == 0.2
    assert left.draft.tolist() == [[0.25, 0.0, 0.75]]


def test_rows_without_the_child_keep_their_state():
    before = state((0.5, 0.5), (0.25, 0.75), ratio=0.5)

    after = before.rejected(FIRST, torch.tensor([False]))

    assert torch.equal(after.target, before.target)
    assert torch.equal(after.draft, before.draft)
    assert torch.equal(after.ratio, before.ratio)


def test_children_beyond_the_law_give_tokens_of_the_target_even_unchecked():
    tree = DraftTree(
        (0, 0, 0), torch.tensor([[0, 0, 1]] * 2), double(1.0, 0.0, 0.0).expand(2, 1, 3)
    )
    target = double(0.0, 0.0, 1.0).expand(2, 4, 3)
    coins = Coins(torch.zeros(2, 3), torch.tensor([0.0, 0.99]))

    found = traversal_verification(tree, target, coins, validate=False)

    assert found.node.tolist() == [0, 0]
    assert found.next_token.tolist() == [2, 2]


def test_the_walk_ends_once_every_row_has_its_node():
    case = tree_inputs(1, SHAPES["binary"], ragged=False)
    visited = []

    def walk():
        for visit in traverse(case.tree, case.target_probs):
            visited.append(visit.node)
            yield (
                visit
                if visit.node != 1
                else type(visit)(1, torch.ones_like(visit.probability), visit.weights)
            )

    keep_first(case.tree, walk(), case.coins)

    assert visited[-1] == 1
    assert 0 not in visited
