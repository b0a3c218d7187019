"""Comparisons that cannot show what they set out to show."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.governance.lints.base import Lint
from specdecode.governance.lints.settings import draft_length, one_hot
from specdecode.governance.plan_arms import Arm
from specdecode.governance.plan_schema import Plan
from specdecode.governance.rules.efficiency_gain import EfficiencyGain

_BLOCK = ("block", "greedy-block")


def _block_candidates(plan: Plan) -> Iterator[Arm]:
    return (a for a in plan.arms if a.role == "candidate" and a.verification in _BLOCK)


def _block_one_hot(plan: Plan) -> Iterator[str]:
    for arm in _block_candidates(plan):
        if (why := one_hot(arm)) is not None:
            yield (
                f"arm {arm.name} verifies by {arm.verification}, but its draft is one-hot ({why}): "
                "then block verification accepts exactly what token verification accepts"
            )


def _block_greedy(plan: Plan) -> Iterator[str]:
    if plan.sampling == ["greedy"]:
        for arm in _block_candidates(plan):
            yield (
                f"arm {arm.name} verifies by {arm.verification}, but all sampling is greedy: at "
                "temperature 0 every rule accepts the same tokens"
            )


def _rate_across_lengths(plan: Plan) -> Iterator[str]:
    compared = [
        m for m in plan.metrics
        if m.name == "acceptance_rate" and m.transform in ("ratio", "difference")
    ]  # fmt: skip
    lengths = {arm.name: draft_length(arm) for arm in plan.arms if arm.draft is not None}
    if compared and len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length or 'not said'}" for name, length in lengths.items())
        yield f"acceptance_rate is compared between arms of different draft length ({shown})"


def _gain_across_lengths(plan: Plan) -> Iterator[str]:
    arms = {arm.name: arm for arm in plan.arms}
    for rule in plan.rules:
        if isinstance(rule, EfficiencyGain):
            own, other = draft_length(arms[rule.arm]), draft_length(arms[rule.versus])
            if own != other:
                yield (
                    f"{rule.name} compares acceptance lengths of {rule.arm} ({own or 'not said'} "
                    f"drafted tokens) and {rule.versus} ({other or 'not said'})"
                )


LINTS = (
    Lint(
        "block-one-hot",
        "error",
        _block_one_hot,
        "let the draft sample, or take verification: token, which is simpler and as good here",
    ),
    Lint(
        "block-greedy",
        "error",
        _block_greedy,
        "measure a sampled setting too, or take verification: token",
    ),
    Lint(
        "rate-across-lengths",
        "error",
        _rate_across_lengths,
        "the rate falls with the draft length by arithmetic: compare mean_acceptance_length, "
        "output_tokens_per_s, or equal lengths",
    ),
    Lint(
        "gain-across-lengths",
        "error",
        _gain_across_lengths,
        "give both arms the same num_speculative_tokens",
    ),
)
