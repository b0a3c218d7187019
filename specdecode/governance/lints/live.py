"""What no offline run shows and a live stage must watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from specdecode.governance.lints.base import Lint
from specdecode.governance.plan_schema import Plan
from specdecode.governance.rules.token_amplification import TokenAmplification


def _is_live(plan: Plan) -> bool:
    return any(stage.live for stage in plan.stages)


def _watched(plan: Plan) -> set[str]:
    """Metrics that have a say and are looked at in some stage."""
    looked_at = {name for stage in plan.stages for name in stage.metrics}
    return {m.name for m in plan.metrics if m.role != "secondary" and m.name in looked_at}


def _missing(*metrics: str) -> Callable[[Plan], Iterator[str]]:
    def look(plan: Plan) -> Iterator[str]:
        if _is_live(plan):
            for metric in metrics:
                if metric not in _watched(plan):
                    yield f"a stage is live, and none watches {metric} as primary or guardrail"

    return look


def _no_amplification(plan: Plan) -> Iterator[str]:
    judged = any(isinstance(r, TokenAmplification) and r.role != "secondary" for r in plan.rules)
    if not judged:
        yield from _missing("target_tokens_per_output_token")(plan)


def _one_concurrency(plan: Plan) -> Iterator[str]:
    if _is_live(plan) and len(plan.traffic.concurrency) < 2:
        level = plan.traffic.concurrency[0]
        yield f"a stage is live, and only a concurrency of {level} is measured"


LINTS = (
    Lint(
        "no-crossover",
        "error",
        _missing("crossover_concurrency"),
        "find the concurrency from which speculation costs more than it gives, and keep off it",
    ),
    Lint(
        "one-concurrency",
        "error",
        _one_concurrency,
        "measure several levels up to the production peak: the gain shrinks as requests queue",
    ),
    Lint(
        "no-kv-capacity",
        "error",
        _missing("kv_capacity_tokens", "longest_context_tokens"),
        "measure what the draft's cache leaves of capacity and of the longest context",
    ),
    Lint(
        "no-prefix-cache",
        "error",
        _missing("prefix_cache_hit_rate"),
        "measure hits with and without: some drafters switch the prefix cache off",
    ),
    Lint(
        "no-amplification",
        "error",
        _no_amplification,
        "add a token_amplification rule or watch target_tokens_per_output_token",
    ),
    Lint(
        "no-cold-start",
        "error",
        _missing("cold_start_s"),
        "measure the time until the first reply after a start: a draft loads and compiles too",
    ),
)
