"""Seven answers that make a plan."""

from __future__ import annotations

import copy
from typing import Any

ANSWERS: dict[str, dict[str, Any]] = {
    "purpose": {
        "name": "chat-block-draft",
        "decision": "switch speculation on for the chat service, or not",
        "claim": "users get the same replies, faster: at every load we serve",
        "owner": "release manager",
        "bottleneck": "decode steps wait for memory",
    },
    "mechanism": {"draft": "small-draft", "verification": "block"},
    "baseline": {
        "population": "chat requests of one region",
        "source": "requests recorded in one week",
        "longest_prompt_tokens": 8000,
        "longest_output_tokens": 600,
        "simplest_alternative": "a smaller target, which changes every reply",
    },
    "evidence": {"speed_ratio": 1.4},
    "operation": {
        "team": "inference team",
        "latency_limit_s": 12.0,
        "longest_context_tokens": 16000,
    },
    "risk": {
        "false_go": "broken tool calls at customers",
        "false_no_go": "a month of higher cost",
        "overturned_by": ["tool calls fail, or the gain is gone at eight requests in flight"],
        "reopen_when": ["the engine repairs its tool grammar"],
    },
    "recovery": {
        "owner": "on-call engineer",
        "roll_back_how": "the previous configuration was deployed again under load",
        "roll_back_when": "2026-11-02",
        "fall_back_how": "the drafter was killed under load",
        "fall_back_when": "2026-11-03",
    },
}


def answers(**changes: Any) -> dict[str, dict[str, Any]]:
    """ANSWERS with single parts changed: answers(evidence={"prompts": 200})."""
    document = copy.deepcopy(ANSWERS)
    for question, parts in changes.items():
        document[question] |= parts
    return document
