"""Traversal verification: judge a draft tree from its leaves up and keep the first accepted path.

Weng et al., "Traversal Verification for Speculative Tree Decoding", arXiv 2505.12398. Node v with
parent u and token x, T and Q first the target and draft rows of the node (``Remainder`` says how
they change when a child is rejected):

    p_root = 1,   p_v = min(1, p_u · T_u(x) / Q_u(x))
    visit(v):  for each child, in the order drawn: visit it; on return it was rejected, so update
               T_v, Q_v and p_v
               accept v iff η_v < p_v;  then Y ~ T_v and the walk ends

The root always accepts. A leaf's T is its target row, so Y is then the bonus token. One rejection
costs one node, not everything below it, which is where the walk gains on top-down rules. On a chain
this is block verification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from specdecode.verification.remainder import Remainder
from specdecode.verification.resampling import inverse_cdf
from specdecode.verification.tree import DraftTree, check_tree
from specdecode.verification.types import Coins


@dataclass(frozen=True, eq=False)
class TreeVerification:
    """Outcome of one tree verification; each row emits ``num_accepted + 1`` tokens.

    Attributes:
        node: int64 [B], the last node kept; 0 is the root. ``DraftTree.path_tokens`` gives the
            tokens down to it.
        num_accepted: int64 [B], draft tokens kept: the node's depth.
        next_token: int64 [B], the token after it.
    """

    node: Tensor
    num_accepted: Tensor
    next_token: Tensor


@dataclass(frozen=True, eq=False)
class Visit:
    """A node at the moment it is judged: everything visited before it was rejected.

    Attributes:
        node: 0 to N.
        probability: float64 [B], of accepting it; 0 where a row lacks the node.
        weights: float64 [B, V], law of the next token if it is accepted.
    """

    node: int
    probability: Tensor
    weights: Tensor


Walk = Callable[[DraftTree, Tensor], Iterator[Visit]]
"""(tree, target rows [B, N + 1, V]) -> every node once, in the order judged, the root last."""


def traverse(tree: DraftTree, target_probs: Tensor) -> Iterator[Visit]:
    """Walk a checked tree from its first leaf to its root; nothing here depends on the coins.

    Args:
        tree: the draft tree.
        target_probs: float [B, N + 1, V], row n the target law after node n.

    Yields:
        Nodes in the order judged.
    """
    one = torch.ones(len(tree.tokens), dtype=torch.float64, device=tree.tokens.device)
    return _visit(tree, target_probs, 0, one)


def _visit(tree: DraftTree, target_probs: Tensor, node: int, ratio: Tensor) -> Iterator[Visit]:
    target = target_probs[:, node].double()
    children = tree.children[node]
    # A leaf has no draft law and needs none.
    draft = tree.draft_probs[:, node].double() if children else target
    state = Remainder(target, draft, ratio)
    for child in children:
        token, real = tree.token(child), tree.has(child)
        yield from _visit(tree, target_probs, child, state.acceptance(token))
        state = state.rejected(token, real, remove=child != children[-1])
    yield Visit(node, state.ratio.where(tree.has(node), 0), state.target)


def traversal_verification(
    tree: DraftTree, target_probs: Tensor, coins: Coins, *, validate: bool = True
) -> TreeVerification:
    """Keep the first accepted path of each draft tree, then resample (arXiv 2505.12398).

    The output law is the target's, at any draft law. On a chain the rule is
    ``block_verification``; with children only below the root it decides like
    ``multi_draft_verification`` and adds a bonus token after an accepted candidate.

    Args:
        tree: the draft tokens, their laws, and the nodes that each row has.
        target_probs: float [B, N + 1, V], row n the target law after the path to node n.
        coins: ``accept`` [B, N], column n − 1 judges node n; ``resample`` [B] draws the next token.
        validate: False skips all checks.

    Returns:
        The node kept and the next token per row.

    Raises:
        ValueError: malformed input, a repeated child, or one that its law cannot yield; the message
        names tensor, row and position.
    """
    if validate:
        check_tree(tree, target_probs, coins)
    return keep_first(tree, traverse(tree, target_probs), coins)


def keep_first(tree: DraftTree, visits: Iterator[Visit], coins: Coins) -> TreeVerification:
    """Take the first visited node whose coin accepts, and draw the token after it."""
    B, device = len(tree.tokens), tree.tokens.device
    node = torch.zeros(B, dtype=torch.int64, device=device)
    weights = torch.zeros(B, 1, dtype=torch.float64, device=device)
    walking = torch.ones(B, dtype=torch.bool, device=device)
    for visit in visits:
        if visit.node == 0:
            taken = walking
        else:
            taken = walking & (coins.accept[:, visit.node - 1].double() < visit.probability)
        node = node.where(~taken, visit.node)
        weights = torch.where(taken[:, None], visit.weights, weights)
        walking = walking & ~taken
        # The nodes left cannot change a finished row: stopping early only saves time.
        if not bool(walking.any()):
            break
    depths = torch.tensor([len(path) for path in tree.paths], device=device)
    return TreeVerification(node, depths[node], inverse_cdf(weights, coins.resample.double()))
