"""Planted faults in the tree rules: enumeration notices each of them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from specdecode.verification import Coins, DraftTree, TreeVerification, traversal_verification
from specdecode.verification.exact import (
    extended_law,
    sequence_law,
    total_variation,
    validity_error,
)
from specdecode.verification.exact_tree import (
    chain,
    drawn_trees,
    emitted_tokens,
    expected_length,
    multi_draft_law,
)
from specdecode.verification.exact_tree_kernel import (
    kernel_multi_draft_law,
    kernel_tree_outcomes,
)
from specdecode.verification.remainder import Remainder
from specdecode.verification.traversal import Visit, keep_first, traverse
from tests.strategies import model_from_seed

# A pair on which every fault shows: with V = 3 many residuals hold one token, whatever their scale.
TARGET = model_from_seed(62, 3, kind="positive")
DRAFT = model_from_seed(63, 3, kind="positive")
SPARSE_TARGET = model_from_seed(44, 3, kind="zeros")
LEAF = ()
SHAPE = ((LEAF, LEAF), (LEAF, LEAF))
PLAIN = sequence_law(TARGET, 3)
REJECTED = Remainder.rejected
ACCEPTANCE = Remainder.acceptance


def rejection(change):
    """A fault in the state after a rejection: ``change(before, after, token)``."""

    def rejected(self, token, real, *, remove=True):
        return change(self, REJECTED(self, token, real, remove=remove), token)

    return "rejected", rejected


def acceptance(change):
    """A fault in the probability of a child: ``change(state, token)``."""
    return "acceptance", change


def unscaled(state):
    return replace(state, ratio=torch.ones_like(state.ratio))


def residual_without_ratio(before, after, token):
    real = torch.ones_like(token, dtype=torch.bool)
    return replace(after, target=REJECTED(unscaled(before), token, real).target)


def softmaxed(before, after, token):
    return replace(after, target=torch.softmax(after.target, -1))


def ratio_from_the_new_law(before, after, token):
    """The update takes Q without x where Q itself belongs."""
    real = torch.ones_like(token, dtype=torch.bool)
    return REJECTED(replace(before, draft=after.draft), token, real)


STATE_FAULTS = {
    "T stays p": rejection(lambda before, after, _: replace(after, target=before.target)),
    "T without p_v": rejection(residual_without_ratio),
    "T softmaxed": rejection(softmaxed),
    "p_v stays": rejection(lambda before, after, _: replace(after, ratio=before.ratio)),
    "p_v becomes 1": rejection(lambda before, after, _: unscaled(after)),
    "Q keeps the drawn token": rejection(
        lambda before, after, _: replace(after, draft=before.draft)
    ),
    "Q not normalised": rejection(
        lambda before, after, token: replace(
            after, draft=before.draft.scatter(1, token[:, None], 0)
        )
    ),
    "Q loses the token too early": rejection(ratio_from_the_new_law),
    "child judged without p_v": acceptance(lambda self, x: ACCEPTANCE(unscaled(self), x)),
    "child judged by T alone": acceptance(
        lambda self, x: ACCEPTANCE(replace(self, draft=torch.ones_like(self.draft)), x)
    ),
    "ratio not clipped": acceptance(
        lambda self, x: (
            self.ratio
            * self.target.gather(1, x[:, None])[:, 0]
            / self.draft.gather(1, x[:, None])[:, 0]
        )
    ),
}


def rule_of(walk):
    """``traversal_verification`` over another walk."""

    def rule(tree, target_probs, coins):
        return keep_first(tree, walk(tree, target_probs), coins)

    return {"rule": rule, "walk": walk}


def reversed_siblings(tree, target_probs):
    """Fault: the last child is judged first."""
    tree.__dict__["children"] = tuple(nodes[::-1] for nodes in tree.children)
    return traverse(tree, target_probs)


def root_first(tree, target_probs):
    """Fault: parents are judged before their children."""
    visits = sorted(traverse(tree, target_probs), key=lambda visit: visit.node)
    return iter([*visits[1:], visits[0]])


def next_token_from_the_target(tree, target_probs):
    """Fault: Y ~ p at every node."""
    for visit in traverse(tree, target_probs):
        yield Visit(visit.node, visit.probability, target_probs[:, visit.node].nan_to_num())


def bonus_of_the_parent(tree, target_probs):
    """Fault: after a leaf the bonus token comes from the row before it."""
    for visit in traverse(tree, target_probs):
        leaf = visit.node and not tree.children[visit.node]
        parent = tree.parents[visit.node - 1] if leaf else 0
        weights = target_probs[:, parent].nan_to_num() if leaf else visit.weights
        yield Visit(visit.node, visit.probability, weights)


def shifted_rows(tree, target_probs):
    """Fault: node n is judged by the target row of another node."""
    return traverse(tree, target_probs.nan_to_num().roll(1, dims=1))


WALK_FAULTS = {
    "siblings reversed": reversed_siblings,
    "root first": root_first,
    "Y from p": next_token_from_the_target,
    "bonus of the parent": bonus_of_the_parent,
    "rows shifted": shifted_rows,
}


def bent(emitted, target=TARGET, plain=PLAIN):
    """Both yardsticks see more than rounding."""
    law = extended_law(emitted, target, 3)
    return total_variation(law, plain) > 1e-3 and validity_error(emitted, target) > 1e-3


def test_the_rule_itself_passes():
    emitted = emitted_tokens(kernel_tree_outcomes(TARGET, DRAFT, SHAPE, **rule_of(traverse)))

    assert total_variation(extended_law(emitted, TARGET, 3), PLAIN) < 1e-12
    assert validity_error(emitted, TARGET) < 1e-12


@pytest.mark.parametrize("name", STATE_FAULTS)
def test_each_fault_in_the_state_bends_the_output_law(name, monkeypatch):
    monkeypatch.setattr(Remainder, *STATE_FAULTS[name])

    assert bent(emitted_tokens(kernel_tree_outcomes(TARGET, DRAFT, SHAPE)))


@pytest.mark.parametrize("name", WALK_FAULTS)
def test_each_fault_in_the_walk_bends_the_output_law(name):
    emitted = kernel_tree_outcomes(TARGET, DRAFT, SHAPE, **rule_of(WALK_FAULTS[name]))

    assert bent(emitted_tokens(emitted))


MULTI_DRAFT_FAULTS = ["T stays p", "Q keeps the drawn token", "Q not normalised", "T softmaxed"]


@pytest.mark.parametrize("name", MULTI_DRAFT_FAULTS)
def test_faults_in_the_state_bend_the_multi_draft_law(name, monkeypatch):
    monkeypatch.setattr(Remainder, *STATE_FAULTS[name])
    q, p = (tuple(Fraction(w, 10) for w in law) for law in ((5, 3, 1, 1), (1, 2, 3, 4)))

    found = [0.0] * 4
    for tree, weight in drawn_trees(lambda _: q, (LEAF, LEAF)):
        for (_, token), share in kernel_multi_draft_law([x for x, _ in tree], q, p).items():
            found[token] += float(weight) * share

    assert max(abs(a - b) for a, b in zip(found, map(float, p), strict=True)) > 1e-3


def test_accepting_at_equality_bends_the_output_law():
    def not_strict(tree, target_probs, coins):
        # u ≤ h is the strict comparison of the next smaller double.
        lower = torch.nextafter(coins.accept, torch.tensor(-math.inf, dtype=torch.float64))
        return traversal_verification(
            tree, target_probs, Coins(lower, coins.resample), validate=False
        )

    emitted = emitted_tokens(kernel_tree_outcomes(SPARSE_TARGET, DRAFT, SHAPE, rule=not_strict))

    assert bent(emitted, SPARSE_TARGET, sequence_law(SPARSE_TARGET, 3))


def test_letting_a_later_coin_overrule_the_first_acceptance_shows():
    def last(tree, target_probs, coins):
        found = traversal_verification(tree, target_probs, coins)
        root = torch.zeros_like(found.node)
        # The root always accepts, so the last acceptance is always the root.
        return TreeVerification(root, root, found.next_token)

    assert bent(emitted_tokens(kernel_tree_outcomes(TARGET, DRAFT, SHAPE, rule=last)))


def test_siblings_drawn_with_replacement_but_declared_without_bend_the_output_law():
    # Distinct draws only: repeated ones are refused.
    law = [Fraction(0)] * 3
    total = Fraction(0)
    for tree, weight in drawn_trees(DRAFT, (LEAF, LEAF), replacement=True):
        candidates = [x for x, _ in tree]
        if len(set(candidates)) < 2:
            continue
        total += weight
        for (_, token), share in multi_draft_law(candidates, DRAFT(()), TARGET(())).items():
            law[token] += weight * share

    assert max(abs(a / total - p) for a, p in zip(law, TARGET(()), strict=True)) > 1e-3


def test_dropping_a_drawn_child_because_of_its_own_probability_bends_the_output_law():
    law = [Fraction(0)] * 3
    q, p = DRAFT(()), TARGET(())
    for tree, weight in drawn_trees(DRAFT, (LEAF, LEAF)):
        kept = [x for x, _ in tree if q[x] > min(q)]
        for (_, token), share in multi_draft_law(kept, q, p).items():
            law[token] += weight * share

    assert max(abs(a - b) for a, b in zip(law, p, strict=True)) > 1e-3


def test_ending_a_branch_because_of_the_path_to_it_is_harmless():
    # Whether a node gets children may depend on its own token: it was kept, not dropped.
    def pruned(tree):
        real = tree.real.clone()
        for node, parent in enumerate(tree.parents, start=1):
            if parent:
                real[:, node - 1] &= tree.tokens[:, parent - 1] == 0
        return DraftTree(tree.parents, tree.tokens, tree.draft_probs, real)

    def walk(tree, target_probs):
        return traverse(pruned(tree), target_probs)

    def rule(tree, target_probs, coins):
        return traversal_verification(pruned(tree), target_probs, coins)

    emitted = emitted_tokens(kernel_tree_outcomes(TARGET, DRAFT, SHAPE, rule=rule, walk=walk))

    assert validity_error(emitted, TARGET) < 1e-12


def test_judging_from_the_root_down_costs_length():
    down = {"rule": rule_of(root_first)["rule"], "walk": root_first}
    emitted = emitted_tokens(kernel_tree_outcomes(TARGET, DRAFT, chain(2), **down))

    assert expected_length(emitted) < expected_length(
        emitted_tokens(kernel_tree_outcomes(TARGET, DRAFT, chain(2)))
    )


def test_sorting_the_candidates_by_probability_bends_the_output_law():
    law = [Fraction(0)] * 3
    q, p = DRAFT(()), TARGET(())
    for tree, weight in drawn_trees(DRAFT, (LEAF, LEAF)):
        best_first = sorted((x for x, _ in tree), key=lambda x: -q[x])
        for (_, token), share in multi_draft_law(best_first, q, p).items():
            law[token] += weight * share

    assert max(abs(a - b) for a, b in zip(law, p, strict=True)) > 1e-3
