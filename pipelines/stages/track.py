"""Stage `track`: the evaluation as MLflow runs, and their ids.

MLflow is a view. Numbers are few, well named and carry their interval; rows and pages are files
beside the run. The record itself is what lies in data/ and reports/.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.stages.command import parameters, read_json, run, write_json
from pipelines.tracking import RunContent, record, store_of

OUTPUT = "reports/tracking.json"
ARTIFACTS = (
    "reports/evaluation.html",
    "reports/plots",
    "reports/metrics.json",
    "reports/verdict.json",
    "reports/audit.json",
    "reports/manifest.json",
    "reports/state/environment.json",
)
ARM_METRICS = (
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "output_tokens_per_s",
    "mean_acceptance_length",
    "acceptance_rate",
    "target_tokens_per_output_token",
    "quality",
)
RATIOS = ("speed_ratio", "tpot_ratio", "ttft_ratio", "quality_difference")


def main() -> None:
    """Writes the runs and reports/tracking.json."""
    verdict, metrics = read_json("reports/verdict.json"), read_json("reports/metrics.json")
    audit, manifest = read_json("reports/audit.json"), read_json("reports/manifest.json")
    params = parameters()
    parent = evaluation(params, verdict, metrics, manifest)
    overall = metrics["scopes"][0]
    children = [
        arm_run(arm, parent, overall, audit["arms"].get(arm, {})) for arm in metrics["arms"]
    ]
    ids = record(store_of(Path.cwd()), parent, children)
    write_json(
        OUTPUT,
        {
            "schema": "specdecode.tracking/1",
            "manifest_sha256": manifest["manifest_sha256"],
            "runs": ids,
        },
    )


def evaluation(
    params: Mapping[str, Any],
    verdict: Mapping[str, Any],
    metrics: Mapping[str, Any],
    manifest: Mapping[str, Any],
) -> RunContent:
    """Returns the parent run."""
    identity = {
        "evaluation.manifest_sha256": manifest["manifest_sha256"],
        "evaluation.rows_sha256": str(verdict["rows_sha256"]),
        "evaluation.part": "parent",
    }
    tags = {
        "mlflow.note.content": note(verdict),
        "gate.verdict": verdict["status"],
        "gate.plan_name": verdict["plan_name"],
        "gate.plan_sha256": verdict["plan_sha256"],
        "profile": params["profile"],
        **{f"sha256.{name}": digest for name, digest in manifest["entries"].items()},
    }
    commit = git_commit()
    if commit:
        tags["mlflow.source.git.commit"] = commit
    settings = {"target": params["target"], "draft": params["draft"], **params["decoding"]}
    return RunContent(
        name=f"{params['profile']} {manifest['manifest_sha256'][:8]}",
        identity=identity,
        tags=tags,
        params=dict(flat(settings)),
        metrics={"prompts": metrics["prompts"], "rows": metrics["rows"]}
        | {f"{arm}.speed_ratio": value for arm, value in speeds(metrics).items()},
        artifacts=tuple(path for name in ARTIFACTS if (path := Path(name)).exists()),
    )


def arm_run(
    arm: str, parent: RunContent, overall: Mapping[str, Any], audited: Mapping[str, Any]
) -> RunContent:
    """Returns the run of one arm: its own numbers and, against plain decoding, ratios."""
    found = overall["arms"][arm]
    numbers: dict[str, float | None] = {
        "requests": found["requests"],
        "error_rate": found["error_rate"],
        "audit.e_value": audited.get("e_value"),
        "audit.tokens_read": audited.get("tokens_read"),
    }
    for name in ARM_METRICS:
        numbers[name] = found["metrics"][name]["pooled"]
        numbers[f"{name}.p95"] = found["metrics"][name].get("p95")
    against = overall["comparisons"].get(arm, {})
    intervals = {name: against[name] for name in RATIOS if name in against}
    intervals["mean_acceptance_length"] = found["mean_acceptance_length_interval"]
    for name, interval in intervals.items():
        numbers.setdefault(name, interval["estimate"])
        numbers |= {f"{name}.low": interval["low"], f"{name}.high": interval["high"]}
    return RunContent(
        name=arm,
        identity={**parent.identity, "evaluation.part": arm},
        tags={
            "arm": arm,
            "profile": parent.tags["profile"],
            "audit.verdict": str(audited.get("verdict", "not audited")),
        },
        metrics=numbers,
    )


def speeds(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns the overall speed ratio of each arm that is compared with the baseline."""
    compared = metrics["scopes"][0]["comparisons"]
    return {arm: found["speed_ratio"]["estimate"] for arm, found in compared.items()}


def note(verdict: Mapping[str, Any]) -> str:
    """Returns the run's description: the verdict with its reasons, as Markdown."""
    lines = [f"## {verdict['status']}", "", verdict["claim"], ""]
    lines += [f"- {reason}" for reason in verdict["reasons"]]
    if verdict["to_change"]:
        lines += ["", "What would change it:", ""]
        lines += [f"- {change}" for change in verdict["to_change"]]
    return "\n".join(lines)


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields (dotted name, text) for every setting."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def git_commit() -> str | None:
    """Returns the commit checked out here; null outside of a Git checkout."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None


if __name__ == "__main__":
    run(main)
