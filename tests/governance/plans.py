"""A small plan that 20 prompts can satisfy."""

from __future__ import annotations

from typing import Any

from specdecode.governance import Plan, parse_plan

WHY = "so that the test can tell"
ARMS = [
    {"name": "plain", "role": "baseline", "draft": None, "verification": None},
    {"name": "token", "role": "comparator", "draft": "self-int4", "verification": "token"},
    {"name": "block", "role": "candidate", "draft": "self-int4", "verification": "block"},
]
LOSSLESS = [
    {"kind": "losslessness", "name": "block-lossless", "role": "primary", "arm": "block"},
    {"kind": "losslessness", "name": "token-lossless", "role": "guardrail", "arm": "token"},
]
FASTER = {
    "kind": "speed_ratio",
    "name": "block-faster",
    "role": "primary",
    "arm": "block",
    "threshold": 1.1,
    "level": 0.95,
    "n_min": 20,
    "why": WHY,
}
ERRORS = {
    "kind": "error_rate",
    "name": "block-errors",
    "role": "guardrail",
    "arm": "block",
    "max_rate": 0.1,
    "level": 0.95,
    "n_min": 20,
    "why": WHY,
}


def small_plan(*rules: dict[str, Any], **fields: Any) -> Plan:
    """Losslessness of both arms, failures, and `rules` (by default: the candidate is faster)."""
    document = {
        "schema": "specdecode.plan/1",
        "name": "small",
        "claim": "block is exact and faster",
        "owner": "a test",
        "population": "rows made up for tests",
        "unit": "prompt",
        "stage": "offline",
        "arms": ARMS,
        "sampling": ["greedy", "sampled"],
        "prompts_expected": {"full": 14},
        "bootstrap_seed": 1,
        "missing_data": {"max_missing_share": 0.0},
        "rules": [rule | {"alpha": 0.01, "why": WHY} for rule in LOSSLESS]
        + [ERRORS, *(rules or [FASTER])],
        "overturned_by": ["a finding"],
        "reopen_when": ["something changes"],
    }
    return parse_plan(document | fields)
