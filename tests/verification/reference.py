"""The rules for one row, coin by coin, in plain Python floats: slow, obvious, independent of torch.

Rows are lists of floats; returns (τ, Y).
"""

from __future__ import annotations

import math


def pick(weights, u):
    """First token whose cumulative weight exceeds u · total."""
    goal, passed = u * math.fsum(weights), 0.0
    last = 0
    for token, weight in enumerate(weights):
        if weight > 0:
            last = token
            passed += weight
            if goal < passed:
                return token
    return last


def residual(scale, p, q):
    weights = [max(scale * a - b, 0.0) for a, b in zip(p, q, strict=True)]
    return weights if any(weights) else p


def ratio(scale, p, q):
    numerator = scale * p
    if numerator == 0:
        return 0.0
    return numerator / q if q > 0 else math.inf


def token(tokens, q, p, accept, resample):
    for i, x in enumerate(tokens):
        if not accept[i] < min(1.0, ratio(1.0, p[i][x], q[i][x])):
            return i, pick(residual(1.0, p[i], q[i]), resample)
    return len(tokens), pick(p[-1], resample)


def block(tokens, q, p, accept, resample):
    kept, ratios = 0, [1.0]
    for i, x in enumerate(tokens, start=1):
        ratios.append(min(1.0, ratio(ratios[-1], p[i - 1][x], q[i - 1][x])))
        h = ratios[-1]
        if i < len(tokens):
            above = math.fsum(max(h * a - b, 0.0) for a, b in zip(p[i], q[i], strict=True))
            below = above + (1 - h)
            h = above / below if below else 1.0
        if accept[i - 1] < h:
            kept = i
    return _finish(kept, ratios, q, p, resample)


def greedy_block(tokens, q, p, accept, resample):
    kept, ratios = 0, [1.0]
    for i, x in enumerate(tokens, start=1):
        ratios.append(min(1e250, ratio(ratios[-1], p[i - 1][x], q[i - 1][x])))
        h = min(1.0, ratios[-1])
        if i < len(tokens):
            gaps = [ratios[-1] * a - b for a, b in zip(p[i], q[i], strict=True)]
            above = math.fsum(max(gap, 0.0) for gap in gaps)
            below = math.fsum(max(-gap, 0.0) for gap in gaps)
            h = min(1.0, above / below) if below else 1.0
        if accept[i - 1] < h:
            kept = i
    return _finish(kept, ratios, q, p, resample)


def match(tokens, q, p, accept, resample):
    for i, x in enumerate(tokens):
        y = pick(p[i], accept[i])
        if y != x:
            return i, y
    return len(tokens), pick(p[-1], resample)


def _finish(kept, ratios, q, p, resample):
    if kept == len(ratios) - 1:
        return kept, pick(p[-1], resample)
    return kept, pick(residual(ratios[kept], p[kept], q[kept]), resample)


REFERENCE = {"token": token, "block": block, "greedy-block": greedy_block, "match": match}


def judge(name, inputs):
    """The reference's (τ, Y) for every row of ``inputs``."""
    found = []
    for b in range(len(inputs.lengths)):
        row = inputs.row(b)
        found.append(
            REFERENCE[name](
                row.draft_tokens[0].tolist(),
                row.draft_probs[0].tolist(),
                row.target_probs[0].tolist(),
                row.coins.accept[0].tolist(),
                float(row.coins.resample[0]),
            )
        )
    return found
