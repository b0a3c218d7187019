"""Workspaces as the stages before `track` leave them, with made-up evidence."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from pipelines.tracking.evaluation import Evaluation
from specdecode.measurement.records import to_table, write_parquet
from tests.pipelines import report_data

ROOT = Path(__file__).resolve().parents[2]

STARTED = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
ENTRIES = ("target.weights", "target.config", "target.tokenizer", "draft.weights", "draft.config",
           "prompts.compiled", "environment", "plan")  # fmt: skip


SPEEDS = {
    "GO": (1.37, 1.31, 1.43),
    "NO_GO": (1.02, 0.98, 1.06),
    "INCONCLUSIVE": (1.13, 1.06, 1.2),
    "INVALID": (None, None, None),
}
"""Speed ratio and its interval, by the verdict they lead to at a threshold of 1.1."""


def evaluation(status: str = "GO", name: str = "a", *, draft: str = "a") -> Evaluation:
    """An evaluation that came to a verdict.

    Args:
        status: the verdict.
        name: tells its inputs from those of others.
        draft: tells its draft from those of others.
    """
    entries = {entry: _sha(entry) for entry in ENTRIES}
    entries |= {"draft.weights": _sha(f"draft {draft}"), "environment": _sha(f"machine {name}")}
    manifest = {
        "schema": "specdecode.manifest/1",
        "entries": entries,
        "manifest_sha256": _sha(f"manifest {name} {draft}"),
    }
    verdict = _verdict(status) | {
        "manifest_sha256": manifest["manifest_sha256"],
        "rows_sha256": _sha(f"rows {name} {draft}"),
        "prompts": 60,
        "rows": 360,
    }
    return Evaluation(
        stage="offline",
        params=params(),
        verdict=verdict,
        metrics=_metrics(),
        audit=report_data.audit(),
        manifest=manifest,
        bundle_sha256=_sha(f"bundle {name} {draft}"),
    )


def params() -> dict[str, Any]:
    """The parameters of this repository."""
    from pipelines.parameters import load_parameters

    return load_parameters(ROOT / "params.yaml")


def workspace(folder: Path, found: Evaluation) -> Path:
    """Writes the files that `track` reads; page, pictures and bundle are stand-ins."""
    for name in ("verdict", "metrics", "audit", "manifest"):
        _write(folder / f"reports/{name}.json", json.dumps(getattr(found, name)))
    _write(folder / "reports/state/environment.json", "{}")
    _write(folder / "reports/evaluation.html", "<p>verdict</p>")
    _write(folder / "reports/plots/speed.csv", "group,estimate\n")
    _write(folder / "reports/evidence/evaluation.zip", "a bundle")
    shutil.copy(ROOT / "params.yaml", folder / "params.yaml")
    rows = [
        row.model_copy(update={"started_at": STARTED + timedelta(seconds=index)})
        for index, row in enumerate(report_data.records(4))
    ]
    (folder / "data").mkdir()
    write_parquet(to_table(rows), folder / "data/rows.parquet")
    return folder


def _verdict(status: str) -> dict[str, Any]:
    """A verdict by a rule about speed, one of its strata, and a rule about quality."""
    verdict = report_data.verdict(status)
    estimate, low, high = SPEEDS[status]
    speed, stratum = verdict["rules"]
    reason = "not measured as planned"
    if estimate is not None:
        reason = f"speed ratio to the baseline {estimate}, between {low} and {high}; 1.1 was asked"
    speed |= {"estimate": estimate, "low": low, "high": high, "reason": reason}
    quality = speed | {
        "name": "quality",
        "kind": "quality_non_inferiority",
        "estimate": 0.02,
        "low": -0.04,
        "high": 0.07,
        "threshold": -0.1,
        "outcome": "pass",
        "reason": "quality difference to the baseline 0.02, between -0.04 and 0.07",
    }
    reasons = ["lossless: the audit found no deviation of block", f"speed: {reason}"]
    return verdict | {"rules": [speed, stratum, quality], "reasons": reasons}


@cache
def _metrics() -> dict[str, Any]:
    """Metrics on record in this repository: computing others takes seconds a time."""
    metrics: dict[str, Any] = json.loads((ROOT / "reports/metrics.json").read_text("utf-8"))
    return metrics


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
