"""Values of context-free toys: traversal against judging the same tree from the root down.

Enumerated in fractions; the chain of two is the published 11/9 against 10/9 (arXiv 2403.10444).
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from specdecode.verification.exact_tree import (
    chain,
    emitted_tokens,
    expected_length,
    top_down_rule,
    traversal_rule,
    tree_outcomes,
)
from specdecode.verification.exact_tree_kernel import kernel_tree_outcomes

LEAF = ()
BINARY = ((LEAF, LEAF), (LEAF, LEAF))

# (target, draft, shape): E[τ] of traversal and of top-down.
EXPECTED = [
    ("1/3 2/3", "2/3 1/3", chain(2), "11/9", "10/9"),
    ("1/3 2/3", "2/3 1/3", (chain(1), LEAF), "14/9", "13/9"),
    ("1/3 2/3", "2/3 1/3", (chain(2), LEAF), "2", "47/27"),
    # The deep child comes last: nothing is left to judge after its subtree.
    ("1/3 2/3", "2/3 1/3", (LEAF, chain(1)), "11/9", "11/9"),
    ("1/6 2/6 3/6", "3/6 2/6 1/6", BINARY, "115/81", "112/81"),
    ("1/6 2/6 3/6", "2/6 3/6 1/6", BINARY, "7549/5184", "6985/5184"),
    ("1/6 1/6 4/6", "1/3 1/3 1/3", BINARY, "19/12", "55/36"),
    ("2/10 3/10 5/10", "5/10 3/10 2/10", BINARY, "3821/2500", "3731/2500"),
]


@pytest.mark.parametrize(("p", "q", "shape", "traversal", "top_down"), EXPECTED)
def test_expected_accepted_tokens(p, q, shape, traversal, top_down):
    def target(prefix):
        return tuple(map(Fraction, p.split()))

    def draft(prefix):
        return tuple(map(Fraction, q.split()))

    def mean(rule):
        return expected_length(emitted_tokens(tree_outcomes(rule, target, draft, shape)))

    assert mean(traversal_rule) == Fraction(traversal)
    assert mean(top_down_rule) == Fraction(top_down)
    kernel = expected_length(emitted_tokens(kernel_tree_outcomes(target, draft, shape)))
    assert float(kernel) == pytest.approx(float(Fraction(traversal)), abs=1e-12)
