from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.stages import decide
from specdecode.governance.plan import canonical_json
from specdecode.measurement.records import write_parquet
from tests.governance.plans import ARMS, small_plan
from tests.measurement.factories import MANIFEST, audit, run

SEED = 4711


def renamed(fields: dict[str, Any], key: str = "arm") -> dict[str, Any]:
    """The arm "plain" as "today"."""
    return fields | {
        name: value.replace("plain", "today")
        for name, value in fields.items()
        if name in (key, "request_id")
    }


@pytest.fixture
def decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict]:
    """Verdict and metrics of rows whose plan has a seed and a name for the baseline of its own."""
    rows = run(20, change=renamed)
    for folder in ("data", "plans", "reports"):
        (tmp_path / folder).mkdir()
    write_parquet(rows, tmp_path / "data/rows.parquet")
    plan = small_plan(bootstrap_seed=SEED, arms=[renamed(arm, "name") for arm in ARMS])
    (tmp_path / "plans/default.yaml").write_text(canonical_json(plan))  # JSON is YAML
    (tmp_path / "reports/audit.json").write_text(json.dumps(audit(rows, today="lossless")))
    manifest = {"manifest_sha256": MANIFEST}
    (tmp_path / "reports/manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "params.yaml").write_text("seeds: {bootstrap: 1, sampling: 2}\n")
    monkeypatch.chdir(tmp_path)
    decide.main()
    names = ("verdict", "metrics")
    return {name: json.loads((tmp_path / f"reports/{name}.json").read_text()) for name in names}


def test_the_gate_and_the_metrics_state_the_same_interval(decided: dict[str, dict]) -> None:
    (rule,) = [r for r in decided["verdict"]["rules"] if r["name"] == "block-faster"]
    overall = decided["metrics"]["scopes"][0]["comparisons"]["block"]["speed_ratio"]

    assert decided["verdict"]["status"] == "GO"
    assert (decided["metrics"]["baseline_arm"], decided["metrics"]["seed"]) == ("today", SEED)
    assert (rule["low"], rule["high"]) == (overall["low"], overall["high"])
