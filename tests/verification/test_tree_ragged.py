"""Traversal on tensors: coin by coin against plain floats, in batches, with padding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.verification import Coins, DraftTree, block_verification, traversal_verification
from specdecode.verification.block import block_acceptance
from specdecode.verification.traversal import traverse
from specdecode.verification.types import DraftBlock
from tests.strategies import inputs, inputs_from_seed
from tests.verification.tree_inputs import (
    SHAPES,
    TreeInputs,
    reference,
    tree_inputs,
    with_garbage,
)


def same(one, other):
    assert torch.equal(one.node, other.node)
    assert torch.equal(one.num_accepted, other.num_accepted)
    assert torch.equal(one.next_token, other.next_token)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), vocabulary=st.sampled_from((1, 2, 3, 7, 150)))
def test_decides_like_the_plain_reference(shape, seed, vocabulary):
    case = tree_inputs(seed, SHAPES[shape], vocabulary=vocabulary)

    found = case.run(traversal_verification)

    pairs = list(zip(found.node.tolist(), found.next_token.tolist(), strict=True))
    assert pairs == [reference(case, row) for row in range(len(pairs))]


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_padded_rows_of_mixed_shapes_equal_the_rows_alone(shape, validate):
    case = tree_inputs(11, SHAPES[shape], batch=48)
    whole = with_garbage(case).run(traversal_verification, validate=validate)

    for row in range(48):
        alone = case.take([row]).run(traversal_verification)
        assert alone.node.item() == whole.node[row].item()
        assert alone.next_token.item() == whole.next_token[row].item()


@pytest.mark.parametrize("shape", SHAPES)
def test_padding_and_neighbours_leave_probabilities_and_laws_bit_equal(shape):
    case = tree_inputs(12, SHAPES[shape], batch=16)
    whole = list(traverse(with_garbage(case).tree, with_garbage(case).target_probs))

    for row in range(16):
        alone = case.take([row])
        for one, many in zip(traverse(alone.tree, alone.target_probs), whole, strict=True):
            assert one.node == many.node
            assert torch.equal(one.probability[0], many.probability[row])
            if case.tree.has(one.node)[row]:
                assert torch.equal(one.weights[0], many.weights[row])


def test_a_node_the_row_lacks_is_never_kept():
    case = tree_inputs(13, SHAPES["lopsided"], batch=200)
    eager = TreeInputs(
        case.tree,
        case.target_probs,
        Coins(torch.zeros_like(case.coins.accept), case.coins.resample),
    )

    found = eager.run(traversal_verification)

    kept = torch.cat([torch.ones(200, 1, dtype=torch.bool), case.tree.real], 1)
    assert kept[torch.arange(200), found.node].all()
    assert len(found.node.unique()) == 8


def test_coins_after_the_kept_node_change_nothing():
    case = tree_inputs(14, SHAPES["binary"], batch=200, ragged=False)
    found = case.run(traversal_verification)
    order = [visit.node for visit in traverse(case.tree, case.target_probs)]
    accept = case.coins.accept.clone()
    for row, node in enumerate(found.node.tolist()):
        for later in order[order.index(node) + 1 : -1]:
            accept[row, later - 1] = 1 - accept[row, later - 1]
    changed = TreeInputs(case.tree, case.target_probs, Coins(accept, case.coins.resample))

    same(changed.run(traversal_verification), found)


def test_leaves_come_before_their_parents_and_siblings_in_the_order_drawn():
    case = tree_inputs(15, SHAPES["lopsided"])

    order = [visit.node for visit in traverse(case.tree, case.target_probs)]

    assert order == [5, 2, 3, 1, 6, 4, 7, 0]


def test_the_numbering_of_nodes_plays_no_part():
    # "binary" level by level against the same tree numbered branch by branch.
    case = tree_inputs(16, SHAPES["binary"], batch=100)
    by_branch = [1, 3, 4, 2, 5, 6]
    columns = [node - 1 for node in by_branch]
    tree = case.tree
    nan = torch.full_like(tree.draft_probs[:, 0], torch.nan)
    renamed = DraftTree(
        (0, 1, 1, 0, 4, 4),
        tree.tokens[:, columns],
        torch.stack([*tree.draft_probs[:, :2].unbind(1), nan, nan, tree.draft_probs[:, 2]], 1),
        tree.real[:, columns],
    )
    rows = case.target_probs[:, [0, *by_branch]]

    found = case.run(traversal_verification)
    other = traversal_verification(
        renamed, rows, Coins(case.coins.accept[:, columns], case.coins.resample)
    )

    back = torch.tensor([0, *by_branch])
    assert torch.equal(back[other.node], found.node)
    assert torch.equal(other.next_token, found.next_token)


@settings(max_examples=30, deadline=None)
@given(case=inputs(ragged=True))
def test_on_a_chain_probabilities_are_those_of_block_verification(case):
    G = case.draft_tokens.shape[1]
    real = torch.arange(G) < case.lengths[:, None]
    tree = DraftTree(tuple(range(G)), case.draft_tokens, case.draft_probs, real)
    plan = block_acceptance(
        DraftBlock(case.draft_tokens, case.draft_probs, case.target_probs, case.lengths)
    )

    for visit in traverse(tree, case.target_probs):
        if visit.node:
            column = visit.node - 1
            expected = plan.probability[:, column].where(real[:, column], 0)
            torch.testing.assert_close(visit.probability, expected, rtol=1e-12, atol=1e-15)


def test_on_a_chain_of_mixed_lengths_decides_like_block_verification():
    case = inputs_from_seed(21, batch=300, gamma=4, vocabulary=30, ragged=True)
    real = torch.arange(4) < case.lengths[:, None]
    tree = DraftTree((0, 1, 2, 3), case.draft_tokens, case.draft_probs, real)

    found = traversal_verification(tree, case.target_probs, case.coins)
    block = case.run(block_verification)

    assert torch.equal(found.num_accepted, block.num_accepted)
    assert torch.equal(found.next_token, block.next_token)
    assert set(found.num_accepted.tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_dtype_and_float64_holding_the_same_numbers_decide_alike(dtype):
    case = tree_inputs(17, SHAPES["binary"], batch=64, vocabulary=40)
    tree, coins = case.tree, case.coins
    q, p = tree.draft_probs.to(dtype), case.target_probs.to(dtype)
    accept, resample = coins.accept.float(), coins.resample.float()

    narrow = traversal_verification(
        DraftTree(tree.parents, tree.tokens, q, tree.real), p, Coins(accept, resample)
    )
    wide = traversal_verification(
        DraftTree(tree.parents, tree.tokens, q.double(), tree.real),
        p.double(),
        Coins(accept.double(), resample.double()),
        validate=False,
    )

    same(narrow, wide)


def test_arguments_are_left_as_they_were():
    case = tree_inputs(18, SHAPES["lopsided"])
    tensors = (case.tree.tokens, case.tree.draft_probs, case.target_probs, case.coins.accept)
    copies = [t.clone() for t in tensors]

    case.run(traversal_verification)

    assert all(torch.equal(a, b) for a, b in zip(copies, tensors, strict=True))


def test_an_empty_batch_gives_an_empty_outcome():
    found = tree_inputs(19, SHAPES["binary"]).take([]).run(traversal_verification)

    assert found.node.shape == found.next_token.shape == (0,)


def test_the_tokens_on_the_way_to_a_node():
    tree = DraftTree((0, 1, 1, 0), torch.tensor([[5, 6, 7, 8]] * 4), torch.empty(4, 2, 9))

    found = tree.path_tokens(torch.tensor([0, 1, 3, 4]))

    assert found.tolist() == [[-1, -1], [5, -1], [5, 7], [8, -1]]
    assert DraftTree((), torch.empty(1, 0).long(), torch.empty(1, 0, 9)).path_tokens(
        torch.tensor([0])
    ).shape == (1, 0)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cpu_and_gpu_decide_alike():
    case = tree_inputs(20, SHAPES["lopsided"], batch=64, vocabulary=5000)
    tree, coins = case.tree, case.coins
    there = TreeInputs(
        DraftTree(tree.parents, tree.tokens.cuda(), tree.draft_probs.cuda(), tree.real.cuda()),
        case.target_probs.cuda(),
        Coins(coins.accept.cuda(), coins.resample.cuda()),
    ).run(traversal_verification)
    here = case.run(traversal_verification)

    assert torch.equal(there.node.cpu(), here.node)
    assert torch.equal(there.next_token.cpu(), here.next_token)
