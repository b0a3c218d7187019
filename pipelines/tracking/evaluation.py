"""An evaluation as runs: its release, the stage that was judged, and the arms that were measured.

Numbers are few and carry their interval. Those called `gate.…` are the numbers of the rules that
decide, with the level the plan gives them; those of an arm are descriptive, at the level of the
report. Rows and pages are files beside the stage, once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.machine_load import Moment
from pipelines.tracking.content import KIND, RunContent, flat, git_commit
from pipelines.tracking.datasets import data_sets
from pipelines.tracking.note import note
from pipelines.tracking.view import LOG_E, LOG_LIMIT

RELEASE, STAGE, ARM = "release", "stage", "arm"
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
FINGERPRINTS = ("target.weights", "draft.weights", "prompts.compiled", "environment")
"""Digests a release shows; its stages have them all."""
NAMES = {"quality_non_inferiority": "quality_difference"}
"""Names of what a rule is about, where its kind says how it is judged."""


@dataclass(frozen=True)
class Evaluation:
    """The documents of one evaluation, as its stages wrote them.

    Attributes:
        stage: of the ladder, such as "offline".
        params: params.yaml.
        verdict: reports/verdict.json.
        metrics: reports/metrics.json.
        audit: reports/audit.json.
        manifest: reports/manifest.json.
        bundle_sha256: of the evidence bundle; null where there is none.
    """

    stage: str
    params: Mapping[str, Any]
    verdict: Mapping[str, Any]
    metrics: Mapping[str, Any]
    audit: Mapping[str, Any]
    manifest: Mapping[str, Any]
    bundle_sha256: str | None

    @property
    def candidate(self) -> str | None:
        """The arm whose primary rules decide; null for a plan without one."""
        arms = [r["arm"] for r in self.verdict["rules"] if r["role"] == "primary" and r["arm"]]
        return str(arms[0]) if arms else None


def release_run(
    found: Evaluation, artifacts: Sequence[Path] = (), moments: Sequence[Moment] = ()
) -> RunContent:
    """Returns the release with its stage and arms nested in it.

    Args:
        found: what was evaluated.
        artifacts: files and folders of the stage.
        moments: load of the machine while it was measured.
    """
    manifest, profile = str(found.manifest["manifest_sha256"]), str(found.params["profile"])
    settings = {name: found.params[name] for name in ("target", "draft", "decoding")}
    numbers = gate_metrics(found)
    identity = {"release.manifest_sha256": manifest}
    stage = RunContent(
        key=found.stage,
        name=found.stage,
        identity=identity
        | {"release.part": found.stage, "rows_sha256": str(found.verdict["rows_sha256"])},
        tags=_tags(found, STAGE),
        params=dict(flat(settings)) | thresholds(found),
        metrics=numbers,
        series=evidence(found, found.candidate),
        moments=moments,
        datasets=data_sets(found.manifest["entries"], None),
        artifacts=tuple(artifacts),
        children=[arm_run(found, arm, identity) for arm in found.metrics["arms"]],
    )
    return RunContent(
        key=RELEASE,
        name=f"{found.params['draft']['source']} {manifest[:8]}"
        + ("" if profile == "full" else f" ({profile})"),
        identity=identity | {"release.part": RELEASE},
        tags=_tags(found, RELEASE),
        params=dict(flat(settings)),
        metrics=numbers,
        datasets=data_sets(found.manifest["entries"], None),
        children=[stage],
    )


def arm_run(found: Evaluation, arm: str, identity: Mapping[str, str]) -> RunContent:
    """Returns the run of one arm: its own numbers and, against plain decoding, ratios."""
    overall, audited = found.metrics["scopes"][0], found.audit["arms"].get(arm, {})
    own = overall["arms"][arm]
    numbers: dict[str, float | None] = {
        "requests": own["requests"],
        "error_rate": own["error_rate"],
        "audit.e_value": audited.get("e_value"),
        "audit.tokens_read": audited.get("tokens_read"),
    }
    for name in ARM_METRICS:
        numbers[name] = own["metrics"][name]["pooled"]
        numbers[f"{name}.p95"] = own["metrics"][name].get("p95")
    against = overall["comparisons"].get(arm, {})
    intervals = {name: against[name] for name in RATIOS if name in against}
    intervals["mean_acceptance_length"] = own["mean_acceptance_length_interval"]
    for name, interval in intervals.items():
        numbers.setdefault(name, interval["estimate"])
        numbers |= {f"{name}.low": interval["low"], f"{name}.high": interval["high"]}
    rows = str(found.verdict["rows_sha256"])
    return RunContent(
        key=arm,
        name=arm,
        identity={**identity, "release.part": f"{found.stage}/{arm}", "rows_sha256": rows},
        tags={
            KIND: ARM,
            "arm": arm,
            "arm.role": _role(found, arm),
            "gate.stage": found.stage,
            "profile": str(found.params["profile"]),
            "audit.verdict": str(audited.get("verdict", "not audited")),
        },
        metrics=numbers,
        series=evidence(found, arm),
    )


def gate_metrics(found: Evaluation) -> dict[str, float | None]:
    """Returns the numbers the verdict rests on: of rules that count, over all prompts.

    Strata are counted, not listed: dozens of columns would hide the few that decide.
    """
    rules = [rule for rule in found.verdict["rules"] if rule["counts"]]
    numbers: dict[str, float | None] = {
        "prompts": found.verdict["prompts"],
        "rows": found.verdict["rows"],
    }
    numbers |= outcomes(found.verdict)
    for rule in rules:
        if rule["arm"] == found.candidate and rule["stratum"] is None:
            name = f"gate.{NAMES.get(rule['kind'], rule['kind'])}"
            numbers.setdefault(name, rule["estimate"])
            numbers.setdefault(f"{name}.low", rule["low"])
            numbers.setdefault(f"{name}.high", rule["high"])
    audited = found.audit["arms"].get(found.candidate, {})
    return numbers | {
        "audit.e_value": audited.get("e_value"),
        "audit.tokens_read": audited.get("tokens_read"),
    }


def outcomes(verdict: Mapping[str, Any]) -> dict[str, int]:
    """Returns how many rules that count came out how."""
    found = Counter(str(rule["outcome"]) for rule in verdict["rules"] if rule["counts"])
    named = sorted({"pass", "fail", "undecided", *found})
    return {f"gate.rules.{name}": found[name] for name in named}


def thresholds(found: Evaluation) -> dict[str, str]:
    """Returns what the rules that count ask for, as settings."""
    return {
        f"rule.{rule['name']}": f"{rule['role']}, {rule['kind']} of {rule['arm']}"
        + (f", threshold {rule['threshold']}" if rule["threshold"] is not None else "")
        + (f", level {rule['level']}" if rule["level"] is not None else "")
        for rule in found.verdict["rules"]
        if rule["counts"] and rule["role"] != "integrity"
    }


def evidence(found: Evaluation, arm: str | None) -> dict[str, list[tuple[int, float]]]:
    """Returns the evidence against an arm's losslessness by tokens read, and what it may reach.

    Both are natural logarithms: the e-value itself spans hundreds of powers of ten.
    """
    curve = found.audit["arms"].get(arm, {}).get("evidence") or ()
    limit = math.log(1 / found.audit["alpha"])
    steps = [(int(tokens), float(value)) for tokens, value in curve]
    if not steps:
        return {}
    return {LOG_E: steps, LOG_LIMIT: [(tokens, limit) for tokens, _ in steps]}


def _tags(found: Evaluation, kind: str) -> dict[str, str]:
    entries = found.manifest["entries"]
    shown = entries if kind == STAGE else [name for name in FINGERPRINTS if name in entries]
    tags = {
        KIND: kind,
        "mlflow.note.content": note(found.verdict),
        "gate.verdict": str(found.verdict["status"]),
        "gate.stage": found.stage,
        "gate.plan_name": str(found.verdict["plan_name"]),
        "gate.plan_sha256": str(found.verdict["plan_sha256"]),
        "gate.manifest_sha256": str(found.manifest["manifest_sha256"]),
        "gate.bundle_sha256": found.bundle_sha256 or "none",
        "profile": str(found.params["profile"]),
        **{f"sha256.{name}": entries[name] for name in shown},
    }
    commit = git_commit()
    return tags | ({"mlflow.source.git.commit": commit} if commit else {})


def _role(found: Evaluation, arm: str) -> str:
    if arm == found.candidate:
        return "candidate"
    return "baseline" if arm == found.metrics["baseline_arm"] else "comparator"
