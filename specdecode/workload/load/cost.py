"""What a run cost, from a stated hourly price.

Everything that was paid for is spread over what was useful: tokens of failed and cancelled replies
cost and bring nothing.
"""

from __future__ import annotations

from typing import Any


def cost_of(
    *,
    price_per_hour: float | None,
    currency: str,
    duration_s: float,
    useful_tokens: int | None,
    good_requests: int | None,
    joules: float | None,
) -> dict[str, Any]:
    """Cost per million useful tokens and per request within the objectives.

    Args:
        price_per_hour: of all machines that served together; None: no cost is stated.
        currency: of the price.
        duration_s: of the run.
        useful_tokens: output tokens of whole replies; None when the server did not count some.
        good_requests: None without objectives.
        joules: energy of the machine; None is not measured.

    Returns:
        Numbers that need something unknown are None. `energy` is text when it was not measured.
    """
    total = None if price_per_hour is None else price_per_hour * duration_s / 3600
    return {
        "price_per_hour": price_per_hour,
        "currency": currency,
        "duration_s": duration_s,
        "total": total,
        "useful_tokens": useful_tokens,
        "per_million_useful_tokens": _each(total, useful_tokens, 1e6),
        "per_request_within_slo": _each(total, good_requests, 1.0),
        "energy": "not measured"
        if joules is None
        else {
            "joules": joules,
            "joules_per_useful_token": _each(joules, useful_tokens, 1.0),
            "joules_per_request_within_slo": _each(joules, good_requests, 1.0),
        },
    }


def _each(total: float | None, number: int | None, scale: float) -> float | None:
    return None if total is None or not number else total / number * scale
