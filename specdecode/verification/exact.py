"""Exact output laws of verification rules, by enumeration over small models.

A model is a function from a prefix (a tuple of token ids) to the next-token law (a tuple of
numbers). A rule enters as a ``BlockLaw``: given one draft block and its rows, the probability of
every (τ, Y). ``exact_rules`` gives those laws in fractions, written down anew from the papers;
``exact_kernel`` reads them off the tensor code. Everything here works on either, so one yardstick
measures both: it stays exact when models and rule are made of fractions, and is float64 otherwise.

Cost grows with V^γ: meant for V up to 4 and γ up to 4 (context-free toys: γ up to 8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

Number = Fraction | float
Tokens = tuple[int, ...]
Law = Sequence[Number]
Model = Callable[[Tokens], Law]
Outcome = tuple[int, int]
"""(τ, Y): draft tokens kept, and the token after them."""

BlockLaw = Callable[[Tokens, Sequence[Law], Sequence[Law]], Mapping[Outcome, Number]]
"""(block [γ], draft rows [γ], target rows [γ + 1]) -> probability of each outcome."""

Modify = Callable[[Model, Model, int, Tokens, Tokens], Model]
"""(target, draft, γ, prefix, emitted) -> the target that later decoding has to use."""


def blocks(draft: Model, gamma: int, prefix: Tokens = ()) -> Iterator[tuple[Tokens, Number]]:
    """Every draft block that can be drawn after ``prefix``, with its probability."""
    if gamma == 0:
        yield (), Fraction(1)
        return
    for token, q in enumerate(draft(prefix)):
        if q > 0:
            for rest, weight in blocks(draft, gamma - 1, (*prefix, token)):
                yield (token, *rest), q * weight


def sequence_law(model: Model, length: int, prefix: Tokens = ()) -> dict[Tokens, Number]:
    """Law of the next ``length`` tokens of plain decoding after ``prefix``."""
    return dict(blocks(model, length, prefix))


def outcomes(
    rule: BlockLaw, target: Model, draft: Model, gamma: int, prefix: Tokens = ()
) -> Iterator[tuple[int, Tokens, Number]]:
    """(τ, emitted tokens, probability) of each way one iteration can go; tuples may repeat."""
    for block, weight in blocks(draft, gamma, prefix):
        draft_rows = [draft(prefix + block[:i]) for i in range(gamma)]
        target_rows = [target(prefix + block[:i]) for i in range(gamma + 1)]
        for (tau, token), probability in rule(block, draft_rows, target_rows).items():
            if probability:
                yield tau, (*block[:tau], token), weight * probability


def emitted_law(
    rule: BlockLaw, target: Model, draft: Model, gamma: int, prefix: Tokens = ()
) -> dict[Tokens, Number]:
    """Law of the tokens that one iteration emits: 1 to γ + 1 of them."""
    law: dict[Tokens, Number] = defaultdict(Fraction)
    for _, emitted, probability in outcomes(rule, target, draft, gamma, prefix):
        law[emitted] += probability
    return dict(law)


def accepted_law(
    rule: BlockLaw, target: Model, draft: Model, gamma: int, prefix: Tokens = ()
) -> tuple[Number, ...]:
    """P(τ = 0), ..., P(τ = γ) of one iteration."""
    law: list[Number] = [Fraction(0)] * (gamma + 1)
    for tau, _, probability in outcomes(rule, target, draft, gamma, prefix):
        law[tau] += probability
    return tuple(law)


def expected_accepted(
    rule: BlockLaw, target: Model, draft: Model, gamma: int, prefix: Tokens = ()
) -> Number:
    """E[τ], the mean number of draft tokens kept by one iteration (bonus token not included)."""
    law = accepted_law(rule, target, draft, gamma, prefix)
    return sum((tau * p for tau, p in enumerate(law)), Fraction(0))


def overlap_bound(target: Model, draft: Model, gamma: int, prefix: Tokens = ()) -> Number:
    """Σ_ℓ Σ_x min(M_s(x^ℓ), M_b(x^ℓ)): no rule keeps more draft tokens in one iteration."""
    total: Number = Fraction(0)
    for length in range(1, gamma + 1):
        target_law = sequence_law(target, length, prefix)
        for tokens, q in blocks(draft, length, prefix):
            total += min(q, target_law.get(tokens, Fraction(0)))
    return total


def joint_law(
    rule: BlockLaw,
    target: Model,
    draft: Model,
    gamma: int,
    *,
    length: int | None = None,
    modify: Modify | None = None,
    iterations: int | None = 1,
    prefix: Tokens = (),
) -> dict[Tokens, Number]:
    """Law of the first ``length`` tokens when speculation starts after ``prefix``.

    Args:
        rule: the verification rule.
        target: target model.
        draft: draft model.
        gamma: draft tokens per iteration.
        length: tokens to look at; None means γ + 1.
        modify: how an iteration changes the target of later decoding; None leaves it alone.
        iterations: iterations of speculation, plain decoding with the target in force fills the
            rest; None speculates until ``length`` tokens are out.
        prefix: tokens before the first iteration.

    Returns:
        Probability of each sequence; sequences of probability 0 may be missing.
    """
    if length is None:
        length = gamma + 1
    law: dict[Tokens, Number] = defaultdict(Fraction)
    if iterations == 0:
        return sequence_law(target, length, prefix)
    left = None if iterations is None else iterations - 1
    # Grouping by emitted tokens first: many blocks lead to the same continuation.
    for emitted, probability in emitted_law(rule, target, draft, gamma, prefix).items():
        missing = length - len(emitted)
        if missing <= 0:
            law[emitted[:length]] += probability
            continue
        after = modify(target, draft, gamma, prefix, emitted) if modify else target
        rest = joint_law(
            rule,
            after,
            draft,
            gamma,
            length=missing,
            modify=modify,
            iterations=left,
            prefix=prefix + emitted,
        )
        for tail, weight in rest.items():
            law[emitted + tail] += probability * weight
    return dict(law)


def total_variation(one: Mapping[Tokens, Number], other: Mapping[Tokens, Number]) -> Number:
    """Half the sum of absolute differences of two laws."""
    zero = Fraction(0)
    total: Number = zero
    for key in one.keys() | other.keys():
        total += _gap(one.get(key, zero), other.get(key, zero))
    return total / 2


def prefix_validity_error(
    rule: BlockLaw, target: Model, draft: Model, gamma: int, prefix: Tokens = ()
) -> Number:
    """``validity_error`` of one iteration of a chain rule."""
    return validity_error(emitted_law(rule, target, draft, gamma, prefix), target, prefix)


def validity_error(emitted: Mapping[Tokens, Number], target: Model, prefix: Tokens = ()) -> Number:
    """Largest |P(next emitted = x | v emitted, and a token after it) − M_b(x | v)| over v and x.

    Zero for every rule that is lossless as it stands. Sharper than the joint law: it looks at one
    iteration before plain decoding could dilute an error.

    Args:
        emitted: law of the tokens that one iteration emits.
        target: target model.
        prefix: tokens before the iteration.
    """
    mass: dict[Tokens, Number] = defaultdict(Fraction)
    for tokens, probability in emitted.items():
        for end in range(1, len(tokens) + 1):
            mass[tokens[:end]] += probability
    followed: dict[Tokens, Number] = defaultdict(Fraction)
    for tokens, probability in mass.items():
        followed[tokens[:-1]] += probability
    worst: Number = Fraction(0)
    for v, total in followed.items():
        for x, p in enumerate(target(prefix + v)):
            share = mass.get((*v, x), Fraction(0)) / total
            gap = _gap(share, p)
            worst = max(worst, gap, key=float)
    return worst


def extended_law(
    emitted: Mapping[Tokens, Number], target: Model, length: int, prefix: Tokens = ()
) -> dict[Tokens, Number]:
    """Law of the first ``length`` tokens when plain decoding goes on after ``emitted``."""
    law: dict[Tokens, Number] = defaultdict(Fraction)
    for tokens, probability in emitted.items():
        missing = max(length - len(tokens), 0)
        for tail, weight in sequence_law(target, missing, prefix + tokens).items():
            law[(tokens + tail)[:length]] += probability * weight
    return dict(law)


def _gap(a: Number, b: Number) -> Number:
    return a - b if a > b else b - a
