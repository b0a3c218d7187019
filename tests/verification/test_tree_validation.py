"""Misuse of the tree rules raises a ValueError that names the tensor, the row and the position."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from specdecode.errors import UserError
from specdecode.verification import (
    Coins,
    DraftTree,
    multi_draft_verification,
    traversal_verification,
)

B, K, V = 3, 2, 4


def put(tensor, place, value):
    changed = tensor.clone()
    changed[place] = value
    return changed


def candidates(**changes):
    """Arguments of ``multi_draft_verification``, some of them changed."""
    given = {
        "candidates": torch.tensor([[0, 1], [2, 3], [1, 1]]),
        "draft_probs": torch.full((B, V), 0.25),
        "target_probs": torch.full((B, V), 0.25),
        "accept": torch.full((B, K), 0.5),
        "resample": torch.full((B,), 0.5),
        "lengths": torch.tensor([2, 2, 1]),
    }
    for name, change in changes.items():
        given[name] = change(given[name])
    coins = Coins(given.pop("accept"), given.pop("resample"))
    return {**given, "coins": coins}


MULTI_DRAFT_MISUSE = {
    "flat candidates": ({"candidates": lambda t: t[0]}, r"candidates: expected int64 \[B, K\]"),
    "int32 candidates": ({"candidates": lambda t: t.int()}, r"candidates: expected int64 \[3, 2\]"),
    "too few draft rows": (
        {"draft_probs": lambda t: t[:2]},
        r"draft_probs: expected float \[3, 4\], got float32 \[2, 4\]",
    ),
    "a draft row per candidate": (
        {"draft_probs": lambda t: t[:, None].expand(B, K, V)},
        r"draft_probs: expected float \[3, 4\]",
    ),
    "no vocabulary": ({"target_probs": lambda t: t[:, :0]}, r"target_probs: expected float"),
    "integer probabilities": (
        {"target_probs": lambda t: t.long()},
        r"target_probs: expected float \[3, 4\], got int64",
    ),
    "too few coins": ({"accept": lambda t: t[:, :1]}, r"coins.accept: expected float \[3, 2\]"),
    "length too long": (
        {"lengths": lambda t: put(t, 1, 3)},
        r"lengths, row 1: got 3, but a length is 0 to 2",
    ),
    "float lengths": ({"lengths": lambda t: t.float()}, r"lengths: expected int64 \[3\]"),
    "lengths elsewhere": (
        {"lengths": lambda t: t.to("meta")},
        r"lengths is on meta, candidates on cpu",
    ),
    "placeholder inside the length": (
        {"candidates": lambda t: put(t, (1, 1), -1)},
        r"candidates, row 1, position 1: got -1, but a token id is 0 to 3",
    ),
    "repeated candidate": (
        {"candidates": lambda t: put(t, (1, 1), 2)},
        r"candidates, row 1, position 1: got 2, but an earlier candidate is the same token",
    ),
    "more candidates than the law has tokens": (
        {"draft_probs": lambda t: put(t, 0, torch.tensor([1.0, 0.0, 0.0, 0.0]))},
        r"candidates, row 0, position 1: got 1, but draft_probs gives it probability 0",
    ),
    "unnormalised draft row": (
        {"draft_probs": lambda t: put(t, 2, torch.full((V,), 0.3))},
        r"draft_probs, row 2, position 0: sums to 1.2, not 1",
    ),
    "NaN in a target row": (
        {"target_probs": lambda t: put(t, (1, 0), math.nan)},
        r"target_probs, row 1, position 0: holds NaN or infinity",
    ),
    "accept coin of 1": (
        {"accept": lambda t: put(t, (1, 0), 1.0)},
        r"coins.accept, row 1, position 0: got 1.0",
    ),
    "NaN resample coin": (
        {"resample": lambda t: put(t, 2, math.nan)},
        r"coins.resample, row 2: got nan",
    ),
}


@pytest.mark.parametrize("case", MULTI_DRAFT_MISUSE)
def test_misuse_of_multi_draft_names_the_place(case):
    changes, message = MULTI_DRAFT_MISUSE[case]

    with pytest.raises(ValueError, match=message) as caught:
        multi_draft_verification(**candidates(**changes))

    assert isinstance(caught.value, UserError)


def test_the_unspoilt_candidates_pass_and_so_do_repeated_ones_with_replacement():
    repeated = candidates(candidates=lambda t: put(t, (1, 1), 2))

    assert multi_draft_verification(**candidates()).token.shape == (B,)
    assert multi_draft_verification(**repeated, replacement=True).token.shape == (B,)


def test_checks_can_be_switched_off_for_candidates():
    repeated = candidates(candidates=lambda t: put(t, (1, 1), 2))

    found = multi_draft_verification(**repeated, validate=False)

    assert (found.token >= 0).all()


def tree_case():
    """Root with children 1 and 2, node 1 with child 3; row 2 lacks nodes 2 and 3."""
    tree = DraftTree(
        (0, 0, 1),
        torch.tensor([[0, 1, 0], [2, 3, 2], [1, -1, -1]]),
        torch.full((B, 2, V), 0.25),
        torch.tensor([[True, True, True], [True, True, True], [True, False, False]]),
    )
    return tree, torch.full((B, 4, V), 0.25), Coins(torch.full((B, 3), 0.5), torch.full((B,), 0.5))


def in_tree(**changes):
    def spoil(tree, target_probs, coins):
        new = {
            name: change if name == "parents" else change(getattr(tree, name))
            for name, change in changes.items()
        }
        return replace(tree, **new), target_probs, coins

    return spoil


def in_target(change):
    return lambda tree, target_probs, coins: (tree, change(target_probs), coins)


def in_coins(accept=lambda t: t, resample=lambda t: t):
    return lambda tree, target_probs, coins: (
        tree,
        target_probs,
        Coins(accept(coins.accept), resample(coins.resample)),
    )


TREE_MISUSE = {
    "parent after its child": (
        in_tree(parents=(0, 2, 1)),
        r"parents, position 1: got 2, but the parent of node 2 is 0 to 1",
    ),
    "minus one for the root": (in_tree(parents=(-1, 0, 1)), r"parents, position 0: got -1"),
    "a column too many": (
        in_tree(parents=(0, 0)),
        r"tokens: expected int64 \[B, 2\], a column per entry of parents, got \[3, 3\]",
    ),
    "int32 tokens": (in_tree(tokens=lambda t: t.int()), r"tokens: expected int64 \[3, 3\]"),
    "a draft row for the leaves": (
        in_tree(draft_probs=lambda t: torch.full((B, 4, V), 0.25)),
        r"draft_probs: expected float \[3, 2, 4\], got float32 \[3, 4, 4\]",
    ),
    "integer mask": (in_tree(real=lambda t: t.long()), r"real: expected bool \[3, 3\]"),
    "node without its parent": (
        in_tree(real=lambda t: put(t, (0, 0), False)),
        r"real, row 0, position 2: got True, but the row lacks the node's parent",
    ),
    "token beyond the vocabulary": (
        in_tree(tokens=lambda t: put(t, (1, 2), V)),
        r"tokens, row 1, position 2: got 4, but a token id is 0 to 3",
    ),
    "placeholder at a real node": (
        in_tree(tokens=lambda t: put(t, (0, 1), -1)),
        r"tokens, row 0, position 1: got -1",
    ),
    "repeated child": (
        in_tree(tokens=lambda t: put(t, (1, 1), 2)),
        r"tokens, row 1, position 1: got 2, but an earlier child of the same node is the same",
    ),
    "child its law cannot yield": (
        in_tree(draft_probs=lambda t: put(t, (1, 1), torch.tensor([0.5, 0.5, 0.0, 0.0]))),
        r"tokens, row 1, position 2: got 2, but the draft law of the node's parent",
    ),
    "unnormalised draft row": (
        in_tree(draft_probs=lambda t: put(t, (1, 1), torch.full((V,), 0.3))),
        r"draft_probs, row 1, position 1: sums to 1.2, not 1",
    ),
    "target without a row for the root": (
        in_target(lambda t: t[:, 1:]),
        r"target_probs: expected float \[3, 4, 4\], got float32 \[3, 3, 4\]",
    ),
    "flat target": (in_target(lambda t: t[0]), r"target_probs: expected float \[B, N \+ 1, V\]"),
    "no vocabulary": (in_target(lambda t: t[..., :0]), r"draft_probs: expected|target_probs: exp"),
    "NaN in a leaf's target row": (
        in_target(lambda t: put(t, (1, 3, 0), math.nan)),
        r"target_probs, row 1, position 3: holds NaN or infinity",
    ),
    "a coin too few": (
        in_coins(accept=lambda t: t[:, 1:]),
        r"coins.accept: expected float \[3, 3\]",
    ),
    "accept coin of 1": (
        in_coins(accept=lambda t: put(t, (1, 2), 1.0)),
        r"coins.accept, row 1, position 2: got 1.0",
    ),
    "negative resample coin": (
        in_coins(resample=lambda t: put(t, 0, -0.1)),
        r"coins.resample, row 0: got -0.1",
    ),
    "two devices": (
        in_target(lambda t: t.to("meta")),
        r"target_probs is on meta, tokens on cpu",
    ),
}


@pytest.mark.parametrize("case", TREE_MISUSE)
def test_misuse_of_a_tree_names_the_place(case):
    spoil, message = TREE_MISUSE[case]

    with pytest.raises(ValueError, match=message) as caught:
        traversal_verification(*spoil(*tree_case()))

    assert isinstance(caught.value, UserError)


def test_the_unspoilt_tree_passes_and_what_a_row_lacks_may_be_anything():
    tree, target_probs, coins = tree_case()
    garbage = (
        replace(tree, draft_probs=put(tree.draft_probs, (2, 1), math.nan)),
        put(target_probs, (2, 3), math.nan),
        Coins(put(coins.accept, (2, 1), 9.0), coins.resample),
    )

    found, other = (
        traversal_verification(tree, target_probs, coins),
        traversal_verification(*garbage),
    )

    assert torch.equal(found.node, other.node)
    assert torch.equal(found.next_token, other.next_token)


def test_checks_can_be_switched_off_for_a_tree():
    spoil, _ = TREE_MISUSE["repeated child"]

    assert traversal_verification(*spoil(*tree_case()), validate=False).node.shape == (B,)
