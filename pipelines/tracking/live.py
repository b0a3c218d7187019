"""A look at a live stage as runs: its release, and in it the step that was judged.

The step of every number is how many units it rests on, so that charts show how a sequence closes in
on its threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.tracking.content import KIND, RunContent
from pipelines.tracking.evaluation import RELEASE, STAGE, outcomes
from pipelines.tracking.note import note

_ENDS = {"": "estimate", ".low": "low", ".high": "high", ".threshold": "threshold"}


def look_run(  # noqa: PLR0917 - a look, and those before it
    verdict: Mapping[str, Any],
    manifest: str,
    stage: str,
    step: str | None,
    act: str,
    earlier: Sequence[Mapping[str, Any]] = (),
) -> RunContent:
    """Returns the release with the step that was judged nested in it.

    Args:
        verdict: the document of the verdict.
        manifest: SHA-256 of the release's inputs; a verdict over no rows or mixed ones names none.
        stage: "shadow", "canary" or "watch".
        step: of a canary, as rows name it.
        act: what was next, such as "Hold" or "RollBack".
        earlier: rules of looks at the same step that came before and were not recorded, by time.
    """
    place = stage if step is None else f"{stage} {step}"
    identity = {"release.manifest_sha256": manifest}
    tags = {
        "mlflow.note.content": note(verdict),
        "gate.verdict": str(verdict["status"]),
        "gate.stage": place,
        "gate.action": act,
        "gate.plan_name": str(verdict["plan_name"]),
        "gate.plan_sha256": str(verdict["plan_sha256"]),
        "gate.manifest_sha256": manifest,
    }
    judged = RunContent(
        key=place,
        name=place,
        # Another plan is another attempt, and the record of the old one stays.
        identity=identity
        | {"release.part": place, "release.plan_sha256": str(verdict["plan_sha256"])},
        tags=tags | {KIND: STAGE, "rows_sha256": str(verdict["rows_sha256"])},
        metrics={"rows": verdict["rows"], "prompts": verdict["prompts"]} | outcomes(verdict),
        series=_sequences([*earlier, verdict], step),
    )
    return RunContent(
        key=RELEASE,
        name=f"release {manifest[:8]}",
        identity=identity | {"release.part": RELEASE},
        tags=tags | {KIND: RELEASE},
        children=[judged],
        renames=False,
    )


def _sequences(
    looks: Sequence[Mapping[str, Any]], step: str | None
) -> dict[str, list[tuple[int, float]]]:
    """Of each metric over all requests of the step: estimate, ends and threshold, by units."""
    where = None if step is None else f"step={step}"
    found: dict[str, dict[int, float]] = {}
    for look in looks:
        for rule in look["rules"]:
            if rule["role"] == "integrity" or rule["stratum"] != where or not rule["n"]:
                continue
            for name, key in _ENDS.items():
                if rule[key] is not None:
                    series = found.setdefault(f"gate.{rule['name']}{name}", {})
                    series[int(rule["n"])] = float(rule[key])
    return {name: sorted(series.items()) for name, series in found.items()}
