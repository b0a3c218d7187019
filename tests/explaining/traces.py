"""Steps of a trace, written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from specdecode.decoding.trace import StepTrace

# Draft tokens 10, 11, 12; two are kept and 99 is drawn in the third one's place.
STEP = StepTrace(
    step=1,
    position=5,
    draft_tokens=(10, 11, 12),
    draft_probs=(0.5, 0.5, 0.8),
    target_probs=(0.6, 0.4, 0.2),
    accept_coins=(0.9, 0.3, 0.6),
    resample_coin=0.4,
    num_accepted=2,
    emitted=(10, 11, 99),
    draft_s=0.006,
    score_s=0.020,
    verify_s=0.001,
)


def step(**changes: Any) -> StepTrace:
    """`STEP` with other values."""
    return replace(STEP, **changes)


def spell(token: int) -> str:
    return f" w{token}"
