"""The verification rules in fractions: the reference that the tensor code is held against.

Written from the papers without a line in common with the tensor code, so that a misreading would
have to happen twice. Each function is a ``BlockLaw``: from one draft block and its rows to the
probability of every (τ, Y).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from specdecode.verification.exact import BlockLaw, Law, Model, Number, Outcome, Tokens

ZERO, ONE = Fraction(0), Fraction(1)


def token_rule(
    block: Tokens, draft_rows: Sequence[Law], target_rows: Sequence[Law]
) -> dict[Outcome, Number]:
    """Token verification (arXiv 2211.17192, Algorithm 1)."""
    law: dict[Outcome, Number] = {}
    reach: Number = ONE
    for kept, token in enumerate(block):
        p, q = target_rows[kept], draft_rows[kept]
        accept = min(ONE, p[token] / q[token])
        _spread(law, kept, reach * (1 - accept), _positive_part(ONE, p, q))
        reach *= accept
    _spread(law, len(block), reach, target_rows[-1])
    return law


def block_rule(
    block: Tokens, draft_rows: Sequence[Law], target_rows: Sequence[Law]
) -> dict[Outcome, Number]:
    """Block verification (arXiv 2403.10444, Algorithm 2)."""
    ratios: list[Number] = [ONE]
    for i, token in enumerate(block):
        ratios.append(min(ONE, ratios[-1] * target_rows[i][token] / draft_rows[i][token]))
    accept: list[Number] = []
    for i in range(1, len(block)):
        above = sum(_positive_part(ratios[i], target_rows[i], draft_rows[i]), ZERO)
        below = above + 1 - ratios[i]
        accept.append(above / below if below else ONE)
    accept.append(ratios[-1])
    return _keep_longest(accept, ratios, draft_rows, target_rows)


def greedy_block_rule(
    block: Tokens, draft_rows: Sequence[Law], target_rows: Sequence[Law]
) -> dict[Outcome, Number]:
    """Greedy block verification (arXiv 2403.10444, appendix); needs ``modified_model``."""
    ratios: list[Number] = [ONE]
    for i, token in enumerate(block):
        ratios.append(ratios[-1] * target_rows[i][token] / draft_rows[i][token])
    accept: list[Number] = []
    for i in range(1, len(block)):
        above = sum(_positive_part(ratios[i], target_rows[i], draft_rows[i]), ZERO)
        below = above + 1 - ratios[i]
        accept.append(min(ONE, above / below) if below > 0 else ONE)
    accept.append(min(ONE, ratios[-1]))
    return _keep_longest(accept, ratios, draft_rows, target_rows)


def match_rule(
    block: Tokens, draft_rows: Sequence[Law], target_rows: Sequence[Law]
) -> dict[Outcome, Number]:
    """Sample-and-match: the target samples, draft tokens count while they agree."""
    del draft_rows  # the draft law plays no part
    law: dict[Outcome, Number] = {}
    reach: Number = ONE
    for kept, token in enumerate(block):
        others = [ZERO if y == token else p for y, p in enumerate(target_rows[kept])]
        for y, p in enumerate(others):
            if p:
                law[kept, y] = reach * p
        reach *= target_rows[kept][token]
    _spread(law, len(block), reach, target_rows[-1])
    return law


EXACT_RULES: Mapping[str, BlockLaw] = {
    "token": token_rule,
    "block": block_rule,
    "greedy-block": greedy_block_rule,
    "match": match_rule,
}


def modified_model(
    target: Model, draft: Model, gamma: int, prefix: Tokens, emitted: Tokens
) -> Model:
    """The target after a greedy block verification: a ``Modify`` for ``exact.joint_law``.

    Positions len(emitted) .. γ − 1 after ``prefix`` are decoded with norm((p̃ · p − q)_+), p̃ taken
    along the emitted path since ``prefix``; all others with ``target``.
    """
    start, end = len(prefix) + len(emitted), len(prefix) + gamma

    def law(path: Tokens) -> Law:
        if not start <= len(path) < end:
            return target(path)
        ratio: Number = ONE
        for i in range(len(prefix), len(path)):
            p, q = target(path[:i])[path[i]], draft(path[:i])[path[i]]
            if q == 0:
                # p̃ is infinite: no draft reaches this path, so all of p is missing here.
                return target(path)
            ratio *= p / q
        weights = _positive_part(ratio, target(path), draft(path))
        total = sum(weights, ZERO)
        return tuple(w / total for w in weights) if total else target(path)

    return law


def _positive_part(scale: Number, p: Law, q: Law) -> list[Number]:
    return [max(ZERO, scale * a - b) for a, b in zip(p, q, strict=True)]


def _keep_longest(
    accept: Sequence[Number],
    ratios: Sequence[Number],
    draft_rows: Sequence[Law],
    target_rows: Sequence[Law],
) -> dict[Outcome, Number]:
    law: dict[Outcome, Number] = {}
    no_later: Number = ONE
    for kept in range(len(accept), -1, -1):
        here = accept[kept - 1] if kept else ONE
        if kept == len(accept):
            weights: Law = target_rows[-1]
        else:
            weights = _positive_part(ratios[kept], target_rows[kept], draft_rows[kept])
        _spread(law, kept, no_later * here, weights)
        no_later *= 1 - here
    return law


def _spread(law: dict[Outcome, Number], kept: int, mass: Number, weights: Law) -> None:
    """Add ``mass`` to the outcomes (kept, Y), Y drawn in proportion to ``weights``."""
    if not mass:
        return
    total = sum(weights, ZERO)
    for token, weight in enumerate(weights):
        if weight:
            law[kept, token] = law.get((kept, token), ZERO) + mass * weight / total
