"""The study as one document, `reports/audit/faults.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.audit_report.settings import ALPHA, MATTERS, Study, described
from specdecode.audit.faults import FAULTS
from specdecode.statistics.binomial import proportion_interval

Tokens = Sequence[int | None]


def document(
    study: Study,
    distances: Mapping[str, Mapping[str, Any]],
    needed: Mapping[str, Tokens],
    alarms: Tokens,
    real: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Everything the study found.

    Args:
        study: its numbers.
        distances: by fault, see `distances.total_variations`.
        needed: tokens to detection by fault and run; None: not within the limit.
        alarms: tokens at which a correct engine was accused, by run.
        real: the same on the real model, see `real.summary`; None when it was not run.
    """
    faults = [_fault(name, distances[name], needed[name]) for name in needed]
    return {
        "schema": "specdecode.audit-report/1",
        "alpha": ALPHA,
        "tokens_limit": study.limit,
        "study": described(study),
        "false_alarm": alarm(alarms, study.alarm_tokens),
        "faults": faults,
        "missed_above_0.02": [
            fault["name"]
            for fault in faults
            if fault["tv"] > MATTERS and fault["detected"] < fault["runs"]
        ],
        "real_model": real,
    }


def alarm(found: Tokens, tokens: int) -> dict[str, Any]:
    """Rate of false alarms with its exact 95 % interval; null where there was no run."""
    accused = sum(at is not None for at in found)
    interval = proportion_interval(accused, len(found))
    return {
        "rate": None if interval is None else interval.estimate,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "alarms": accused,
        "runs": len(found),
        "tokens_per_run": tokens,
    }


def quantile(found: Tokens, share: float) -> int | None:
    """Order statistic of tokens to detection; None where it is a run that found nothing."""
    if not found:
        return None
    ordered = sorted(math.inf if tokens is None else tokens for tokens in found)
    value = ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
    return None if value == math.inf else int(value)


def _fault(name: str, found: Mapping[str, Any], needed: Tokens) -> dict[str, Any]:
    return {
        "name": name,
        "breaks": FAULTS[name].breaks,
        "verification": FAULTS[name].fits[0],
        "sampling": dict(FAULTS[name].sampling),
        "tv": found["mean"],
        "tv_error": found["error"],
        "tv_basis": found["basis"],
        "median_tokens": quantile(needed, 0.5),
        "p90_tokens": quantile(needed, 0.9),
        "detected": sum(tokens is not None for tokens in needed),
        "runs": len(needed),
    }
