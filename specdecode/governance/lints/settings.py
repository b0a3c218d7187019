"""Settings of engines, read whatever way they were written down."""

from __future__ import annotations

import json
from collections.abc import Iterator

from specdecode.governance.plan_arms import Arm

Setting = tuple[str, object]

_ONE_HOT_DRAFTS = ("prompt-lookup", "suffix", "ngram", "n-gram")


def settings_of(arm: Arm) -> Iterator[Setting]:
    """(name, value) of every setting, nested ones too; names as `draft_sample_method`."""
    if arm.engine is not None:
        yield from _flat(arm.engine.settings)


def setting(arm: Arm, name: str) -> object:
    """The value of one setting; None when it is not set."""
    return dict(settings_of(arm)).get(name)


def draft_length(arm: Arm) -> object:
    """γ as far as the plan says it; None leaves it to the run's parameters."""
    return arm.num_speculative_tokens or setting(arm, "num_speculative_tokens")


def one_hot(arm: Arm) -> str | None:
    """Why every draft token has probability 1 under its own law, or None if that is not known."""
    for name in (arm.draft, setting(arm, "method"), setting(arm, "spec_type")):
        if str(name or "").lower().startswith(_ONE_HOT_DRAFTS):
            return f"{name} copies tokens"
    if arm.draft_sampling == "greedy":
        return "draft_sampling is greedy"
    engine = arm.engine.name if arm.engine else None
    if engine == "vllm" and setting(arm, "draft_sample_method") in (None, "greedy"):
        return "vLLM drafts greedily unless draft_sample_method is probabilistic"
    if engine == "llama.cpp" and setting(arm, "spec_draft_sampling") == "greedy":
        return "spec_draft_sampling is greedy"
    return None


def _flat(value: object) -> Iterator[Setting]:
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        value = _parsed(value)  # engines take whole configurations as one argument of JSON
    if isinstance(value, dict):
        for name, inner in value.items():
            last = str(name).rpartition(".")[2]  # "speculative-config.method" names the same
            yield last.lstrip("-").replace("-", "_").lower(), inner
            yield from _flat(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(inner)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
