"""A look at a live stage as runs: its release, and in it the step that was judged.

The step of every number is how many units it rests on, so that charts show how a sequence closes in
on its threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.tracking.content import KIND, RunContent
from pipelines.tracking.evaluation import RELEASE, STAGE, outcomes
from pipelines.tracking.note import note


def look_run(
    verdict: Mapping[str, Any], manifest: str, stage: str, step: str | None, act: str
) -> RunContent:
    """Returns the release with the step that was judged nested in it.

    Args:
        verdict: the document of the verdict.
        manifest: SHA-256 of the release's inputs; a verdict over no rows or mixed ones names none.
        stage: "shadow", "canary" or "watch".
        step: of a canary, as rows name it.
        act: what was next, such as "Hold" or "RollBack".
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
        series=dict(_sequences(verdict, step)),
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
    verdict: Mapping[str, Any], step: str | None
) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """Of each metric over all requests of the step: estimate, ends and threshold."""
    where = None if step is None else f"step={step}"
    for rule in verdict["rules"]:
        if rule["role"] == "integrity" or rule["stratum"] != where or not rule["n"]:
            continue
        for name, key in (("", "estimate"), (".low", "low"), (".high", "high"),
                          (".threshold", "threshold")):  # fmt: skip
            if rule[key] is not None:
                yield f"gate.{rule['name']}{name}", [(int(rule["n"]), float(rule[key]))]
