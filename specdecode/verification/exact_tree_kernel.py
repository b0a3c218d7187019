"""The exact law of the tensor tree rules themselves, in float64.

As in ``exact_kernel`` a rule is a step function of its coins, and its own plan gives the borders of
the cells. A walk ends at the first node that accepts, so one case per node is enough: all coins
before it at the lower end of their rejecting cell, its own at 0, all later ones at 0 too, where a
rule that let them speak would show. All trees that can be drawn go through the rule in one batch;
where a law gave fewer children than the shape has, rows are padded with unusable values.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from specdecode.verification.exact import Law, Model, Number, Tokens
from specdecode.verification.exact_kernel import cdf_cells
from specdecode.verification.exact_tree import Shape, Tree, drawn_trees
from specdecode.verification.multi_draft import (
    multi_draft_acceptance,
    multi_draft_verification,
)
from specdecode.verification.traversal import (
    TreeVerification,
    Walk,
    traversal_verification,
    traverse,
)
from specdecode.verification.tree import DraftTree
from specdecode.verification.types import Coins

TreeRule = Callable[[DraftTree, Tensor, Coins], TreeVerification]


def shape_parents(shape: Shape) -> tuple[int, ...]:
    """Parents of nodes 1..N of a shape, numbered level by level."""
    parents: list[int] = []
    waiting = deque([(0, shape)])
    while waiting:
        node, children = waiting.popleft()
        for child in children:
            parents.append(node)
            waiting.append((len(parents), child))
    return tuple(parents)


def tree_batch(
    trees: Sequence[Tree], target: Model, draft: Model, shape: Shape, prefix: Tokens = ()
) -> tuple[DraftTree, Tensor]:
    """Drawn trees of one shape as a batch: the tree, and target rows float64 [B, N + 1, V]."""
    parents = shape_parents(shape)
    B, N, V = len(trees), len(parents), len(target(prefix))
    inner = max(parents, default=-1) + 1
    tokens = torch.full((B, N), -1)
    draft_probs = torch.full((B, inner, V), math.nan, dtype=torch.float64)
    target_probs = torch.full((B, N + 1, V), math.nan, dtype=torch.float64)
    for row, tree in enumerate(trees):
        for node, path, children in _placed(tree, shape):
            if node:
                tokens[row, node - 1] = path[-1]
            target_probs[row, node] = _row(target(prefix + path))
            if children:
                draft_probs[row, node] = _row(draft(prefix + path))
    return DraftTree(parents, tokens, draft_probs, tokens >= 0), target_probs


def _placed(tree: Tree, shape: Shape) -> Iterator[tuple[int, Tokens, Tree]]:
    """(node, path to it, its children) of a drawn tree, nodes numbered as its shape's."""
    waiting: deque[tuple[int, Tokens, Tree | None, Shape]] = deque([(0, (), tree, shape)])
    last = 0
    while waiting:
        node, path, children, places = waiting.popleft()
        if children is not None:
            yield node, path, children
        for i, below in enumerate(places):
            last += 1
            if children is not None and i < len(children):
                token, grandchildren = children[i]
                waiting.append((last, (*path, token), grandchildren, below))
            else:
                waiting.append((last, path, None, below))


def kernel_tree_outcomes(
    target: Model,
    draft: Model,
    shape: Shape,
    prefix: Tokens = (),
    *,
    rule: TreeRule = traversal_verification,
    walk: Walk = traverse,
) -> Iterator[tuple[Tokens, int, Number]]:
    """(kept path, token after it, probability) of each way one iteration of the code can go.

    Args:
        target: target model.
        draft: draft model.
        shape: how many children each node gets.
        prefix: tokens before the iteration.
        rule: the rule under test.
        walk: its plan, which has to judge the way the rule does.
    """
    trees, weights = zip(*drawn_trees(draft, shape, prefix), strict=True)
    tree, target_probs = tree_batch(trees, target, draft, shape, prefix)
    parents, real, N = tree.parents, tree.tokens >= 0, len(tree.parents)
    rows: list[int] = []
    accept: list[list[float]] = []
    resample: list[float] = []
    sizes: list[float] = []
    reach = [float(weight) for weight in weights]
    rejecting = [[0.0] * N for _ in trees]
    for visit in walk(tree, target_probs):
        passes, laws = visit.probability.tolist(), visit.weights.tolist()
        for row, h in enumerate(passes):
            if reach[row] * h > 0:
                for coin, size in cdf_cells(laws[row]):
                    rows.append(row)
                    accept.append(list(rejecting[row]))
                    resample.append(coin)
                    sizes.append(reach[row] * h * size)
            reach[row] *= 1 - h
            if visit.node:
                # With h = 1 no coin rejects; nothing below is reached then.
                rejecting[row][visit.node - 1] = min(h, math.nextafter(1, 0))
    batch = DraftTree(parents, tree.tokens[rows], tree.draft_probs[rows], real[rows])
    coins = Coins(
        torch.tensor(accept, dtype=torch.float64).view(-1, N),
        torch.tensor(resample, dtype=torch.float64),
    )
    found = rule(batch, target_probs[rows], coins)
    kept = batch.path_tokens(found.node).tolist()
    depths, tokens = found.num_accepted.tolist(), found.next_token.tolist()
    for path, depth, token, size in zip(kept, depths, tokens, sizes, strict=True):
        yield tuple(path[:depth]), token, size


def kernel_multi_draft_law(
    candidates: Sequence[int], q: Law, p: Law, *, replacement: bool = False
) -> dict[tuple[int, int], Number]:
    """(accepted candidate or −1, emitted token) -> probability under the tensor code."""
    drawn = torch.tensor([candidates], dtype=torch.int64)
    draft, target, K = _row(q)[None], _row(p)[None], len(candidates)
    plan = multi_draft_acceptance(drawn, draft, target, torch.tensor([K]), replacement=replacement)
    reach, rejecting = 1.0, [0.0] * K
    cases: list[tuple[list[float], float, float]] = []
    for place, h in enumerate(plan.probability[0].tolist()):
        cases.append((list(rejecting), 0.0, reach * h))
        rejecting[place] = min(h, math.nextafter(1, 0))
        reach *= 1 - h
    cases += [(rejecting, coin, reach * size) for coin, size in cdf_cells(plan.weights[0].tolist())]
    cases = [case for case in cases if case[2] > 0]
    B = len(cases)
    found = multi_draft_verification(
        drawn.expand(B, -1),
        draft.expand(B, -1),
        target.expand(B, -1),
        Coins(
            torch.tensor([accept for accept, _, _ in cases], dtype=torch.float64).view(B, K),
            torch.tensor([resample for _, resample, _ in cases], dtype=torch.float64),
        ),
        replacement=replacement,
    )
    law: dict[tuple[int, int], Number] = defaultdict(float)
    for place, token, (_, _, size) in zip(
        found.accepted.tolist(), found.token.tolist(), cases, strict=True
    ):
        law[place, token] += size
    return dict(law)


def _row(law: Law) -> Tensor:
    return torch.tensor([float(p) for p in law], dtype=torch.float64)
