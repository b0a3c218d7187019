"""Laws of a whole batch: every row of logits under its own request's parameters and history."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdecode.decoding.distributions import distributions
from specdecode.decoding.request import Request
from specdecode.errors import NumericalError


def row_laws(
    logits: Tensor, requests: Sequence[Request], drafted: Tensor | None, offset: int
) -> Tensor:
    """Turn logits into the laws tokens are drawn from.

    Args:
        logits: float32 `[B, T, V]`.
        requests: the batch's requests, length B.
        drafted: int64 `[B, G]` draft tokens after each request's own; None for none.
        offset: how many draft tokens precede row 0; row t of request b follows its own tokens and
            its first `offset + t` draft tokens.

    Returns:
        float32 `[B, T, V]`.
    """
    first = requests[0].params
    alike = all(_same_law(r, requests[0]) for r in requests)
    if alike and not first.needs_history:
        return _checked(distributions(logits.flatten(0, 1), first).view(logits.shape))
    drafts = [[] for _ in requests] if drafted is None else drafted.tolist()
    rows = []
    for row, request in enumerate(requests):
        contexts = None
        if request.params.needs_history:
            tokens = request.tokens
            contexts = [tokens + drafts[row][: offset + t] for t in range(logits.shape[1])]
        rows.append(distributions(logits[row], request.params, contexts, len(request.prompt)))
    return _checked(torch.stack(rows))


def _checked(laws: Tensor) -> Tensor:
    """Extreme parameters can overflow where finite logits did not; no law, no token."""
    wrong = ~((laws.sum(-1) - 1).abs() < 1e-3)  # written so that NaN is wrong, too
    if bool(wrong.any()):
        row, position = (int(i) for i in torch.nonzero(wrong)[0])
        raise NumericalError(
            f"batch row {row}, new token {position}: the sampling parameters leave no probability "
            "law (overflow); use less extreme penalties, biases or temperature",
            row,
        )
    return laws


def _same_law(one: Request, other: Request) -> bool:
    """Whether two requests shape the target's law alike (seed and length limits do not)."""
    a, b = one.params, other.params
    return a is b or (
        all(
            getattr(a, name) == getattr(b, name)
            for name in ("temperature", "top_k", "top_p", "min_p", "logit_bias")
        )
        and not (a.needs_history or b.needs_history)
    )
