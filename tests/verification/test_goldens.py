"""Published and hand-enumerated values of the context-free toy M_b = (1/3, 2/3), M_s = (2/3, 1/3).

The row γ = 2 is printed in arXiv 2403.10444 (10/9 against 11/9); the others were enumerated in
fractions before this code existed.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from specdecode.verification.exact import (
    accepted_law,
    expected_accepted,
    overlap_bound,
)
from specdecode.verification.exact_kernel import kernel_rule
from specdecode.verification.exact_rules import EXACT_RULES


def target(prefix):
    return Fraction(1, 3), Fraction(2, 3)


def draft(prefix):
    return Fraction(2, 3), Fraction(1, 3)


# γ: E[τ] of token verification, of block verification, and Σ min (greedy block, the bound).
EXPECTED = {
    1: ("2/3", "2/3", "2/3"),
    2: ("10/9", "11/9", "12/9"),
    3: ("38/27", "5/3", "50/27"),
    4: ("130/81", "166/81", "64/27"),
    5: ("422/243", "64/27", "226/81"),
    6: ("1330/729", "1933/729", "260/81"),
    7: ("4118/2187", "703/243", "7778/2187"),
    8: ("12610/6561", "20384/6561", "8536/2187"),
}


@pytest.mark.parametrize("gamma", EXPECTED)
def test_oracle_reproduces_the_expected_lengths_as_fractions(gamma):
    token, block, full = map(Fraction, EXPECTED[gamma])

    assert expected_accepted(EXACT_RULES["token"], target, draft, gamma) == token
    assert expected_accepted(EXACT_RULES["block"], target, draft, gamma) == block
    assert expected_accepted(EXACT_RULES["greedy-block"], target, draft, gamma) == full
    assert overlap_bound(target, draft, gamma) == full


@pytest.mark.parametrize("gamma", range(1, 7))
@pytest.mark.parametrize(("place", "name"), [(0, "token"), (1, "block"), (2, "greedy-block")])
def test_kernel_reproduces_the_expected_lengths(gamma, place, name):
    found = expected_accepted(kernel_rule(name), target, draft, gamma)

    assert float(found) == pytest.approx(float(Fraction(EXPECTED[gamma][place])), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "gamma", "law"),
    [
        ("token", 2, (Fraction(1, 3), Fraction(2, 9), Fraction(4, 9))),
        ("block", 2, (Fraction(1, 3), Fraction(1, 9), Fraction(5, 9))),
        ("block", 3, (Fraction(1, 3), Fraction(1, 9), Fraction(1, 9), Fraction(4, 9))),
        (
            "block",
            4,
            (Fraction(1, 3), Fraction(1, 9), Fraction(1, 9), Fraction(5, 81), Fraction(31, 81)),
        ),
    ],
)
def test_law_of_the_accepted_length(name, gamma, law):
    assert accepted_law(EXACT_RULES[name], target, draft, gamma) == law
    found = accepted_law(kernel_rule(name), target, draft, gamma)
    assert [float(p) for p in found] == pytest.approx([float(p) for p in law], abs=1e-12)


def test_one_hot_draft_gives_seventeen_seventieths_to_both_rules():
    # A draft that always proposes token 0, against laws that put 1/5 and then 3/14 on it:
    # E[τ] = 1/5 + 1/5 · 3/14 = 17/70.
    def target(prefix):
        return (
            (Fraction(1, 5), Fraction(4, 5)) if not prefix else (Fraction(3, 14), Fraction(11, 14))
        )

    def draft(prefix):
        return Fraction(1), Fraction(0)

    assert expected_accepted(EXACT_RULES["token"], target, draft, 2) == Fraction(17, 70)
    assert expected_accepted(EXACT_RULES["block"], target, draft, 2) == Fraction(17, 70)
