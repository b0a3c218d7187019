"""What one or two replies to the same prompt say, as a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdecode.decoding import GenerationResult


def describe_reply(result: GenerationResult) -> dict[str, Any]:
    """One reply with its numbers, JSON-safe. What was not measured is null."""
    accepted, timing = result.acceptance, result.timing
    drafting = accepted.drafted > 0
    return {
        "text": result.text,
        "token_ids": list(result.token_ids),
        "finish_reason": result.finish_reason,
        "output_tokens": len(result.token_ids),
        "output_tokens_per_s": len(result.token_ids) / timing.e2e_s if timing.e2e_s > 0 else None,
        "ttft_s": timing.ttft_s,
        "tpot_s": timing.tpot_s,
        "e2e_s": timing.e2e_s,
        "steps": accepted.steps,
        "drafted": accepted.drafted,
        "accepted": accepted.accepted,
        "acceptance_rate": accepted.acceptance_rate,
        "mean_acceptance_length": accepted.mean_acceptance_length if drafting else None,
        "target_tokens": result.target_tokens,
        "seed": result.seed,
        "draft_failure": result.draft_failure,
        "logprobs": None if result.logprobs is None else [asdict(t) for t in result.logprobs],
        "trace": None if result.trace is None else [asdict(step) for step in result.trace],
    }


def compare_replies(
    plain: Mapping[str, Any],
    speculative: Mapping[str, Any],
    *,
    greedy: bool,
    judge: Callable[[], Mapping[str, Any]],
) -> dict[str, Any]:
    """What the two replies say about each other.

    Args:
        plain: `describe_reply` of plain decoding.
        speculative: likewise, of speculative decoding.
        greedy: whether both were decoded greedily. Sampled replies may differ although both
            follow the same distribution, so that equality says nothing about them.
        judge: asked only when greedy replies differ: the audit's greedy section of both.

    Returns:
        equal (null when sampled), first_difference (0-based token, null when none), tie (whether
        every differing choice lies within the measured numerical tolerance; null when there was
        nothing to judge), speed_ratio (null when a time is missing), statement.
    """
    difference = first_difference(plain["token_ids"], speculative["token_ids"])
    verdict = judge() if greedy and difference is not None else None
    ours, theirs = speculative["output_tokens_per_s"], plain["output_tokens_per_s"]
    return {
        "equal": difference is None if greedy else None,
        "first_difference": difference,
        "tie": None if verdict is None else verdict["failures"] == 0,
        "speed_ratio": ours / theirs if ours and theirs else None,
        "statement": _statement(difference, verdict, greedy=greedy),
    }


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Index of the first token in which two replies differ; None when they are equal."""
    for index, (ours, theirs) in enumerate(zip(one, other, strict=False)):
        if ours != theirs:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))


def _statement(difference: int | None, verdict: Mapping[str, Any] | None, *, greedy: bool) -> str:
    if not greedy:
        return (
            "Sampled outputs may differ and still follow the same distribution; "
            "`specdecode audit` on many of them tells."
        )
    if difference is None or verdict is None:
        return "Greedy outputs are equal, token for token."
    where = f"Greedy outputs differ from token {difference + 1} on"
    tolerance = f"the tolerance of {verdict['tie_tolerance']:.2g} measured for this precision"
    if verdict["failures"]:
        return (
            f"{where}, and NOT at a tie: {verdict['failures']} tokens fall short of the target's "
            f"best by more than {tolerance}. Do not trust this configuration."
        )
    return (
        f"{where}, at a numerical tie: every choice is the target's best within {tolerance}. "
        "--dtype float32 makes ties rare."
    )
