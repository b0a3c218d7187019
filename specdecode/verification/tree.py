"""A draft tree: several continuations of one context that share their prefixes.

Node 0 is the context itself, the root; nodes 1..N are draft tokens. All rows of a batch share one
shape, which is plain Python, and a mask says which nodes a row really has. A chain is the tree
``parents = (0, 1, ..., G - 1)``, and its tensors are then those of the chain rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specdecode.errors import ConfigError
from specdecode.verification.types import Coins
from specdecode.verification.validation import check_coins, check_rows, check_tensors, refuse


@dataclass(frozen=True, eq=False)
class DraftTree:
    """Draft tokens in a tree, a row per request.

    Children of one node are in the order drawn, without replacement: the first from the node's
    draft law q, the next from norm(q without the first), and so on. A node may have fewer children
    than the shape allows only because its law ran out of tokens or because of the path above it;
    dropping a token after looking at it biases the output.

    Attributes:
        parents: parent of node 1, 2, ..., N; each below the node's own number. P is the largest of
            them plus 1, or 0 for the bare root: nodes from P on have no children.
        tokens: int64 [B, N], token of node n at column n − 1; anything where a row lacks the node.
        draft_probs: float [B, P, V]; row n is the law that the first child of node n was drawn
            from. Not read where a row's node has no children.
        real: bool [B, N], the nodes a row has; None means all. A node needs its parent.
    """

    parents: tuple[int, ...]
    tokens: Tensor
    draft_probs: Tensor
    real: Tensor | None = None

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of node 0..N, in the order drawn."""
        found: list[list[int]] = [[] for _ in range(len(self.parents) + 1)]
        for node, parent in enumerate(self.parents, start=1):
            found[parent].append(node)
        return tuple(tuple(nodes) for nodes in found)

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """Nodes from the first below the root down to node 0..N itself; () for the root."""
        found: list[tuple[int, ...]] = [()]
        for node, parent in enumerate(self.parents, start=1):
            found.append((*found[parent], node))
        return tuple(found)

    def token(self, node: int) -> Tensor:
        """Token of ``node``, int64 [B]; 0 where a row lacks it, so that it can index a law."""
        return self.tokens[:, node - 1].where(self.has(node), 0)

    def has(self, node: int) -> Tensor:
        """Which rows have ``node``, bool [B]."""
        if node == 0 or self.real is None:
            return torch.ones(len(self.tokens), dtype=torch.bool, device=self.tokens.device)
        return self.real[:, node - 1]

    def path_tokens(self, node: Tensor) -> Tensor:
        """Draft tokens from the root to a node of each row.

        Args:
            node: int64 [B], 0 to N.

        Returns:
            int64 [B, D] with D the tree's depth; −1 beyond the node.
        """
        depth = max(len(path) for path in self.paths)
        table = [(*path, *([0] * (depth - len(path)))) for path in self.paths]
        nodes = torch.tensor(table, dtype=torch.int64, device=node.device)[node]
        tokens = self.tokens.gather(1, (nodes - 1).clamp(min=0)) if depth else nodes
        return tokens.where(nodes > 0, -1)


def check_tree(tree: DraftTree, target_probs: Tensor, coins: Coins) -> None:
    """Refuse a tree, target rows [B, N + 1, V] and coins that do not make a verification.

    Raises:
        ConfigError: (a ValueError) naming the tensor, the row and the position, column n − 1 for
            tokens and coins of node n.
    """
    _check_shape(tree, target_probs)
    (B, N), V = tree.tokens.shape, target_probs.shape[-1]
    P = max(tree.parents, default=-1) + 1
    real = torch.ones_like(tree.tokens, dtype=torch.bool) if tree.real is None else tree.real
    check_tensors(
        "tokens",
        tree.tokens.device,
        [
            ("tokens", tree.tokens, "int64", (B, N)),
            ("real", real, "bool", (B, N)),
            ("draft_probs", tree.draft_probs, "float", (B, P, V)),
            ("target_probs", target_probs, "float", (B, N + 1, max(V, 1))),
            ("coins.accept", coins.accept, "float", (B, N)),
            ("coins.resample", coins.resample, "float", (B,)),
        ],
    )
    known = torch.stack([tree.has(node) for node in range(N + 1)], 1)
    above = known[:, list(tree.parents)]
    refuse("real", real & ~above, real, "the row lacks the node's parent")
    outside = real & ((tree.tokens < 0) | (tree.tokens >= V))
    refuse("tokens", outside, tree.tokens, f"a token id is 0 to {V - 1}")
    check_coins(coins, real)
    used = [known[:, list(tree.children[node])].any(-1) for node in range(P)]
    check_rows("draft_probs", tree.draft_probs, torch.stack(used, 1) if P else known[:, :0])
    check_rows("target_probs", target_probs, known)
    _check_siblings(tree, real)


def _check_shape(tree: DraftTree, target_probs: Tensor) -> None:
    if tree.tokens.dim() != 2 or tree.tokens.shape[1] != len(tree.parents):
        raise ConfigError(
            f"tokens: expected int64 [B, {len(tree.parents)}], a column per entry of parents, "
            f"got {list(tree.tokens.shape)}."
        )
    for node, parent in enumerate(tree.parents, start=1):
        if not 0 <= parent < node:
            raise ConfigError(
                f"parents, position {node - 1}: got {parent}, but the parent of node {node} is "
                f"0 to {node - 1}; number the nodes from the root down."
            )
    if target_probs.dim() != 3:
        raise ConfigError(
            f"target_probs: expected float [B, N + 1, V], got {list(target_probs.shape)}."
        )


def _check_siblings(tree: DraftTree, real: Tensor) -> None:
    """Refuse children that their parent's law cannot yield, and repeated ones."""
    impossible, repeated = torch.zeros_like(real), torch.zeros_like(real)
    for node, parent in enumerate(tree.parents, start=1):
        token = tree.token(node)
        q = tree.draft_probs[:, parent].gather(1, token[:, None])[:, 0]
        impossible[:, node - 1] = ~(q > 0)
        for sibling in tree.children[parent]:
            if sibling < node:
                repeated[:, node - 1] |= tree.has(sibling) & (tree.token(sibling) == token)
    refuse(
        "tokens",
        real & impossible,
        tree.tokens,
        "the draft law of the node's parent gives it probability 0; mark the node as not real",
    )
    refuse(
        "tokens",
        real & repeated,
        tree.tokens,
        "an earlier child of the same node is the same token; they are drawn without replacement",
    )
