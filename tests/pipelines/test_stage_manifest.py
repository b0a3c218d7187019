from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.stages import manifest
from specdecode.governance import PLAN_ENTRY, load_plan, plan_sha256, sealed_sha256

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the stage writes for this repository; digests of large files are made up."""
    documents: dict[str, Any] = {}
    parts = dict.fromkeys(manifest.PARTS, "0" * 64)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(manifest, "sha256_file", lambda path: f"file {path}")
    monkeypatch.setattr(manifest, "sha256_tree", lambda path, _suffixes: f"tree {path}")
    monkeypatch.setattr(manifest, "read_json", lambda _path: {**parts, "fingerprint": parts})
    monkeypatch.setattr(manifest, "write_json", documents.__setitem__)
    manifest.main()
    return documents["reports/manifest.json"]


def test_the_manifest_names_the_plan_the_rows_are_measured_for(written: dict[str, Any]) -> None:
    plan = load_plan(ROOT / "plans/default.yaml")

    assert written["entries"][PLAN_ENTRY] == plan_sha256(plan)


def test_the_seal_is_over_all_entries(written: dict[str, Any]) -> None:
    assert written["manifest_sha256"] == sealed_sha256(written["entries"])
