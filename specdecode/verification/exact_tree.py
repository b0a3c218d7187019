"""Exact laws of the tree rules, in fractions: drawn trees, rules, and what they emit.

Written from the papers without a line in common with the tensor code, like ``exact_rules`` for
chains. A ``Shape`` says how many children a node gets, a ``Tree`` which ones were drawn; both are
nested tuples. Children are drawn without replacement, so a law with fewer tokens than the shape
has children gives fewer.

Cost grows with the number of trees that can be drawn: V up to 4 for one level, 3 for two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from specdecode.verification.exact import Law, Model, Number, Tokens

Shape = tuple["Shape", ...]
"""The shapes below each child: ``()`` is a leaf, ``((), ())`` a node with two leaves."""

Tree = tuple[tuple[int, "Tree"], ...]
"""(token, what was drawn below it) of each child, in the order drawn."""

TreeOutcome = tuple[Tokens, int]
"""(tokens of the kept path, the token after them)."""

TreeLaw = Callable[[Tree, Model, Model, Tokens], Mapping[TreeOutcome, Number]]
"""(drawn tree, target, draft, prefix) -> probability of each outcome."""

ZERO, ONE = Fraction(0), Fraction(1)


def chain(length: int) -> Shape:
    """The shape of a chain of ``length`` draft tokens."""
    return (chain(length - 1),) if length else ()


def drawn_trees(
    draft: Model, shape: Shape, prefix: Tokens = (), *, replacement: bool = False
) -> Iterator[tuple[Tree, Number]]:
    """Every tree of ``shape`` that can be drawn after ``prefix``, with its probability."""
    yield from _siblings(draft, shape, prefix, draft(prefix), replacement)


def _siblings(
    draft: Model, shape: Shape, prefix: Tokens, law: Law, replacement: bool
) -> Iterator[tuple[Tree, Number]]:
    total = sum(law, ZERO)
    if not shape or not total:
        yield (), ONE
        return
    for token, q in enumerate(law):
        if not q:
            continue
        rest = law if replacement else _without(law, token)
        below = list(drawn_trees(draft, shape[0], (*prefix, token), replacement=replacement))
        for others, weight in _siblings(draft, shape[1:], prefix, rest, replacement):
            for subtree, share in below:
                yield ((token, subtree), *others), q / total * weight * share


def multi_draft_law(
    candidates: Sequence[int], q: Law, p: Law, *, replacement: bool = False
) -> dict[tuple[int, int], Number]:
    """(accepted candidate or −1, emitted token) -> probability (arXiv 2402.14160, Algorithm 1)."""
    law: dict[tuple[int, int], Number] = {}
    reach: Number = ONE
    for place, x in enumerate(candidates):
        accept = min(ONE, p[x] / q[x])
        if accept:
            law[place, x] = reach * accept
        reach *= 1 - accept
        if not reach:
            return law
        p = _normalised([max(ZERO, a - b) for a, b in zip(p, q, strict=True)])
        q = q if replacement else _normalised(_without(q, x))
    for y, share in enumerate(p):
        if share:
            law[-1, y] = reach * share
    return law


def top_down_rule(
    tree: Tree, target: Model, draft: Model, prefix: Tokens = ()
) -> dict[TreeOutcome, Number]:
    """Multi-draft verification at each node, from the root down (SpecInfer, EAGLE, Sequoia).

    Here for comparison: stop where no child is accepted.
    """
    law: dict[TreeOutcome, Number] = defaultdict(Fraction)
    found = multi_draft_law([x for x, _ in tree], draft(prefix), target(prefix))
    for (place, token), probability in found.items():
        if place < 0:
            law[(), token] += probability
            continue
        below = top_down_rule(tree[place][1], target, draft, (*prefix, token))
        for (path, y), share in below.items():
            law[(token, *path), y] += probability * share
    return dict(law)


def traversal_rule(
    tree: Tree, target: Model, draft: Model, prefix: Tokens = ()
) -> dict[TreeOutcome, Number]:
    """Traversal verification (arXiv 2505.12398), leaf to root."""
    law: dict[TreeOutcome, Number] = {}

    def climb(children: Tree, path: Tokens, keep: Number, reach: Number) -> Number:
        """Judge all below ``path`` and then its end; return the probability of going on."""
        p, q = target(prefix + path), draft(prefix + path)
        for x, below in children:
            reach = climb(below, (*path, x), min(ONE, keep * p[x] / q[x]), reach)
            if not reach:
                return ZERO
            gaps = [max(ZERO, keep * a - b) for a, b in zip(p, q, strict=True)]
            excess = sum(gaps, ZERO)
            room = excess + 1 - keep
            keep = excess / room if room else ONE
            p = _normalised(gaps) if excess else p
            q = _normalised(_without(q, x))
        for y, share in enumerate(p):
            if reach * keep * share:
                law[path, y] = reach * keep * share
        return reach * (1 - keep)

    climb(tree, (), ONE, ONE)
    return law


def tree_outcomes(
    rule: TreeLaw, target: Model, draft: Model, shape: Shape, prefix: Tokens = ()
) -> Iterator[tuple[Tokens, int, Number]]:
    """(kept path, token after it, probability) of each way one iteration can go."""
    for tree, weight in drawn_trees(draft, shape, prefix):
        for (path, token), probability in rule(tree, target, draft, prefix).items():
            yield path, token, weight * probability


def emitted_tokens(outcomes: Iterable[tuple[Tokens, int, Number]]) -> dict[Tokens, Number]:
    """Law of the tokens that one iteration emits: 1 to depth + 1 of them."""
    law: dict[Tokens, Number] = defaultdict(Fraction)
    for path, token, probability in outcomes:
        law[(*path, token)] += probability
    return dict(law)


def expected_length(emitted: Mapping[Tokens, Number]) -> Number:
    """E[τ], the mean number of draft tokens kept (the token after them is not one)."""
    return sum(((len(tokens) - 1) * p for tokens, p in emitted.items()), ZERO)


def _without(law: Law, token: int) -> list[Number]:
    return [ZERO if y == token else w for y, w in enumerate(law)]


def _normalised(weights: Sequence[Number]) -> list[Number]:
    total = sum(weights, ZERO)
    return [w / total for w in weights] if total else list(weights)
