"""What a stage needs that is looked at again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from specdecode.errors import ConfigError
from specdecode.governance.alpha import false_go_ledger
from specdecode.governance.lints.base import Lint
from specdecode.governance.live.fitness import Code, problems
from specdecode.governance.live.margins import ERROR_RATE
from specdecode.governance.plan_schema import Plan


def _unfit(code: Code) -> Callable[[Plan], Iterator[str]]:
    def look(plan: Plan) -> Iterator[str]:
        for stage in plan.stages:
            if stage.sequential:
                named = [metric for metric in plan.metrics if metric.name in stage.metrics]
                for found, text in problems(stage, named, plan.candidates):
                    if found == code:
                        yield f"{stage.name}: {text}"

    return look


def _failures_unwatched(plan: Plan) -> Iterator[str]:
    says = {metric.name for metric in plan.metrics if metric.role != "secondary"}
    for stage in plan.stages:
        if stage.sequential and ERROR_RATE not in says & set(stage.metrics):
            yield f"{stage.name}: no metric with a say counts the requests that fail"


def _over_total(plan: Plan) -> Iterator[str]:
    try:
        false_go_ledger(plan)
    except ConfigError as error:
        yield str(error)


LINTS = (
    Lint(
        "no-alarm-alpha",
        "error",
        _unfit("no-alarm-alpha"),
        "say how often a stage may stop a harmless change, before any data",
    ),
    Lint(
        "unbounded-metric",
        "error",
        _unfit("unbounded-metric"),
        "give low and high, or make it an indicator with a limit",
    ),
    Lint(
        "not-in-rows",
        "error",
        _unfit("not-in-rows"),
        "move it to the stage that measures it; here it would hold the decision for ever",
    ),
    Lint(
        "not-judgeable",
        "error",
        _unfit("not-judgeable"),
        "change the metric or the method: `decide` refuses the stage as it is",
    ),
    Lint(
        "failures-unwatched",
        "error",
        _failures_unwatched,
        "watch error_rate: a metric of replies says nothing about those that never came",
    ),
    Lint(
        "alpha-over-total",
        "error",
        _over_total,
        "lower the stages' alpha, or declare a larger alpha_total before any data",
    ),
)
