"""Honest arguments of the tree rules, and the rules for one row in plain Python floats."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from specdecode.verification import Coins, DraftTree, draw_without_replacement
from tests.strategies import inputs_from_seed
from tests.verification.reference import pick, ratio

SHAPES = {
    "root": (),
    "chain": (0, 1, 2),
    "star": (0, 0, 0),
    "binary": (0, 0, 1, 1, 2, 2),
    "lopsided": (0, 1, 1, 0, 2, 4, 0),
}
"""Parents of some trees; "lopsided" is numbered neither by level nor by walk."""


@dataclass(frozen=True)
class TreeInputs:
    """Arguments of ``traversal_verification``."""

    tree: DraftTree
    target_probs: Tensor
    coins: Coins

    def take(self, rows):
        """Some of the rows, in the order given."""
        tree, coins = self.tree, self.coins
        return TreeInputs(
            DraftTree(tree.parents, tree.tokens[rows], tree.draft_probs[rows], tree.real[rows]),
            self.target_probs[rows],
            Coins(coins.accept[rows], coins.resample[rows]),
        )

    def run(self, rule, **options):
        return rule(self.tree, self.target_probs, self.coins, **options)


def tree_inputs(seed, parents, *, batch=8, vocabulary=7, ragged=True):
    """Children drawn without replacement from sparse laws; with ``ragged``, some nodes missing."""
    N, P = len(parents), max(parents, default=-1) + 1
    laws = inputs_from_seed(seed, batch=batch, gamma=max(P, 1), vocabulary=vocabulary)
    rng = torch.Generator().manual_seed(seed)
    rows = inputs_from_seed(seed + 1, batch=batch, gamma=N, vocabulary=vocabulary)
    tokens = torch.full((batch, N), -1)
    real = torch.zeros(batch, N, dtype=torch.bool)
    wanted = torch.rand(batch, N, generator=rng) > (0.2 if ragged else -1)
    for parent in range(P):
        children = [node for node, above in enumerate(parents, start=1) if above == parent]
        noise = torch.rand(batch, len(children), generator=rng, dtype=torch.float64)
        drawn = draw_without_replacement(laws.draft_probs[:, parent], noise)
        above = real[:, parent - 1] if parent else torch.ones(batch, dtype=torch.bool)
        for i, node in enumerate(children):
            tokens[:, node - 1] = drawn.tokens[:, i]
            real[:, node - 1] = above & (drawn.lengths > i) & wanted[:, node - 1]
            # Missing children are the last ones of their node.
            above = real[:, node - 1]
    coins = Coins(
        torch.rand(batch, N, generator=rng, dtype=torch.float64),
        torch.rand(batch, generator=rng, dtype=torch.float64),
    )
    tree = DraftTree(parents, tokens, laws.draft_probs[:, :P], real)
    return TreeInputs(tree, rows.target_probs, coins)


def with_garbage(case):
    """The same inputs with everything that a row does not have made unusable."""
    tree = case.tree
    lacking = ~tree.real
    childless = torch.ones(tree.draft_probs.shape[:2], dtype=torch.bool)
    for node, parent in enumerate(tree.parents, start=1):
        childless[:, parent] &= lacking[:, node - 1]
    root = torch.zeros(len(lacking), 1, dtype=torch.bool)
    return TreeInputs(
        DraftTree(
            tree.parents,
            tree.tokens.masked_fill(lacking, -1),
            tree.draft_probs.masked_fill(childless[..., None], math.nan),
            tree.real,
        ),
        case.target_probs.masked_fill(torch.cat([root, lacking], 1)[..., None], -math.inf),
        Coins(case.coins.accept.masked_fill(lacking, 7.0), case.coins.resample),
    )


def reference(case, row):
    """(node, next token) of one row, coin by coin and without torch."""
    tree = case.tree
    p, q = case.target_probs[row].tolist(), tree.draft_probs[row].tolist()
    tokens, real = tree.tokens[row].tolist(), tree.real[row].tolist()
    accept, resample = case.coins.accept[row].tolist(), case.coins.resample[row].item()

    def visit(node, keep):
        target, draft = p[node], q[node] if node < len(q) else None
        for child, parent in enumerate(tree.parents, start=1):
            if parent != node or not real[child - 1]:
                continue
            x = tokens[child - 1]
            found = visit(child, min(1.0, ratio(keep, target[x], draft[x])))
            if found:
                return found
            gaps = [max(keep * a - b, 0.0) for a, b in zip(target, draft, strict=True)]
            mass = math.fsum(gaps)
            below = mass + (1 - keep)
            keep = mass / below if below else 1.0
            target = [gap / mass for gap in gaps] if mass else target
            left = [0.0 if y == x else b for y, b in enumerate(draft)]
            draft = [b / (math.fsum(left) or 1.0) for b in left]
        if node == 0 or accept[node - 1] < keep:
            return node, pick(target, resample)
        return None

    return visit(0, 1.0)
