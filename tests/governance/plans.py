"""A small plan that 20 prompts can satisfy."""

from __future__ import annotations

from typing import Any

from specdecode.governance import Plan, parse_plan

WHY = "so that the test can tell"
DIGESTS = {"digests": {"others": "manifest"}}
ARMS = [
    DIGESTS | {"name": "plain", "role": "baseline", "draft": None, "verification": None},
    DIGESTS
    | {"name": "token", "role": "comparator", "draft": "self-int4", "verification": "token"},
    DIGESTS | {"name": "block", "role": "candidate", "draft": "self-int4", "verification": "block"},
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
EFFECT = {
    "speed_ratio": 1.5,
    "quality_difference": 0.0,
    "error_rate": 0.0,
    "acceptance_length": 3.0,
    "biased": 0.0,
}
EFFECTS = {
    "arms": {"token": EFFECT, "block": EFFECT},
    "num_speculative_tokens": 4,
    "output_tokens": 20,
    "prompt_spread": 0.1,
    "request_spread": 0.05,
    "quality": 0.5,
    "same_score": 0.9,
    "checked": 0.9,
    "shares": {},
}
SPEED_METRIC = {
    "name": "output_tokens_per_s",
    "transform": "ratio",
    "bounds": {"low": 0, "high": None},
    "direction": "higher",
    "role": "primary",
    "margin": -0.1,
    "owner": "a test",
}
ERROR_METRIC = SPEED_METRIC | {
    "name": "error_rate",
    "transform": "none",
    "bounds": {"low": 0, "high": 1},
    "direction": "lower",
    "role": "guardrail",
    "margin": 0.1,
}
OFFLINE = {
    "name": "offline",
    "rules": None,
    "metrics": [],
    "method": "fixed-n",
    "alpha": 0.025,
    "unit": "prompt",
    "n_min": 20,
    "n_max": 400,
    "window": None,
    "missing_data": None,
}
STOP = {
    "condition": "replies are wrong",
    "precursor": "the audit's e-value grows",
    "owner": "a test",
    "recovery": "stop",
    "tested": {"how": "by a planted fault", "when": "2026-01-01"},
}


def small_plan(*rules: dict[str, Any], **fields: Any) -> Plan:
    """Losslessness of both arms, failures, and `rules` (by default: the candidate is faster)."""
    document = {
        "schema": "specdecode.plan/2",
        "name": "small",
        "decision": "switch block on or not",
        "claim": "block is exact and faster",
        "owner": "a test",
        "population": "rows made up for tests",
        "traffic": {
            "source": "made up",
            "concurrency": [1],
            "longest_prompt_tokens": None,
            "longest_output_tokens": None,
            "contains": [],
        },
        "bottleneck": "memory bandwidth",
        "simplest_alternative": "a smaller target",
        "cost_of_wrong": {"false_go": "slow replies", "false_no_go": "a late release"},
        "maintenance": {"hours_per_month": 1, "review_hours": 1},
        "unit": "prompt",
        "stage": "offline",
        "arms": ARMS,
        "sampling": ["greedy", "sampled"],
        "prompts_expected": {"full": 14},
        "order_seed": 1,
        "bootstrap_seed": 1,
        "exclusions": [],
        "missing_data": {"max_missing_share": 0.0},
        "rules": [rule | {"alpha": 0.01, "why": WHY} for rule in LOSSLESS]
        + [ERRORS, *(rules or [FASTER])],
        "metrics": [SPEED_METRIC, ERROR_METRIC],
        "strata": {},
        "stages": [OFFLINE],
        "stop_conditions": [STOP],
        "contingencies": [],
        "approvals": {
            "required_roles": [],
            "distinct_persons": True,
            "expires_days": 30,
            "signers_file": None,
        },
        "power": {"wanted": 0.8, "effects": EFFECTS},
        "overturned_by": ["a finding"],
        "reopen_when": ["something changes"],
    }
    return parse_plan(document | fields)
