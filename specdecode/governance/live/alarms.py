"""Which alarms a live stage has, and how they share its chance of a false one.

Each guardrail is one alarm in each step of a canary, and one more in each stratum that the plan
names; the sample ratio of a canary is another. Any of them stops the stage, so they share
`alarm_alpha` equally (Bonferroni). A GO needs every primary metric, and so each may err with the
whole of `alpha` (intersection-union).

Source: R. Berger, Technometrics 24 (1982).
"""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.errors import ConfigError
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.plan_schema import Plan
from specdecode.governance.plan_stages import Stage
from specdecode.governance.verdict import Role
from specdecode.statistics.multiplicity import AlphaLedger

SAMPLE_RATIO = "sample ratio"


def role_of(metric: PlanMetric, stage: Stage) -> Role:
    """A metric's role in a stage. Nothing more is to be shown of what is released already."""
    if stage.name == "watch" and metric.role == "primary":
        return "guardrail"
    return metric.role


def metrics_of(plan: Plan, stage: Stage) -> list[PlanMetric]:
    """The stage's metrics, in its order."""
    named = {metric.name: metric for metric in plan.metrics}
    return [named[name] for name in stage.metrics]


def step_names(stage: Stage) -> list[str | None]:
    """The steps of a canary as rows name them (`profile`); of other stages, one without a name."""
    return [None] if stage.steps is None else [f"{share:g}" for share in stage.steps]


def strata_of(plan: Plan) -> list[tuple[str, str]]:
    """Every stratum the plan names, as (by, value)."""
    return [(by, value) for by, values in plan.strata.items() for value in values]


def place(step: str | None, stratum: tuple[str, str] | None) -> str | None:
    """Where a number is of: "step=0.05, category=chat"; None for everything."""
    parts = [f"step={step}"] if step is not None else []
    parts += ["=".join(stratum)] if stratum is not None else []
    return ", ".join(parts) or None


def alarms(plan: Plan, stage: Stage) -> AlphaLedger:
    """Levels of the stage's alarms by name.

    Raises:
        ConfigError: the stage has no `alarm_alpha`.
    """
    if stage.alarm_alpha is None:
        raise ConfigError(f"stage {stage.name} has no alarm_alpha")
    names = list(_names(plan, stage)) or ["none"]  # a level that is declared is not lost
    return AlphaLedger.by_weights(stage.alarm_alpha, dict.fromkeys(names, 1))


def alarm_name(metric: str, where: str | None) -> str:
    """A metric and where it is judged, as the ledger names a guardrail's alarm."""
    return f"{metric} ({where})" if where else metric


def _names(plan: Plan, stage: Stage) -> Iterator[str]:
    for metric in metrics_of(plan, stage):
        if role_of(metric, stage) == "guardrail":
            for step in step_names(stage):
                for stratum in (None, *strata_of(plan)):
                    yield alarm_name(metric.name, place(step, stratum))
    if stage.steps is not None:
        yield SAMPLE_RATIO
