"""How often the audit accuses an engine that is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.audit_report.detection import speculative
from pipelines.audit_report.models import study_models
from pipelines.audit_report.rows import drawn_rows, first_evidence
from pipelines.audit_report.settings import ALPHA, REPLY, Study
from pipelines.audit_report.store import code_sha256, keep, kept
from specdecode.audit.draft_source import draft_source
from specdecode.audit.model_scorer import ModelScorer
from specdecode.audit.run import audit_with

GROUP = 10
WAYS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("block", {}),
    ("token", {"top_p": 0.8}),
    ("block", {"temperature": 0.6}),
    ("token", {}),
)
"""Rule and sampling of a group of runs, in turn: what the faults are planted in."""


def false_alarms(group: int, runs: int, study: Study, data: Path) -> list[int | None]:
    """Tokens at which a correct engine was accused, by run; None where it never was.

    Args:
        group: number of the group, which also chooses rule and sampling.
        runs: of the group.
        study: its numbers.
        data: folder of what is kept.
    """
    settings = study.of_alarms() | {"code": code_sha256(), "runs": runs}
    path = data / "alarms" / f"{group:03d}.json"
    found = kept(path, settings)
    if found is None:
        found = _simulated(group, runs, study, data)
        keep(path, settings, found)
    return list(found)


def _simulated(group: int, runs: int, study: Study, data: Path) -> list[int | None]:
    verification, sampling = WAYS[group % len(WAYS)]
    target, draft = study_models(data / "models")
    engine = speculative(target, draft, verification)
    asked = [(run, row) for run in range(runs) for row in range(study.alarm_tokens // REPLY)]
    rows = drawn_rows(engine, sampling, asked, name=f"alarm {group}", seed=study.seed, reply=REPLY)
    arms: dict[str, list[dict[str, Any]]] = {}
    for (run, _), row in zip(asked, rows, strict=True):
        arms.setdefault(str(run), []).append(row)
    scorer = ModelScorer(target, draft_source(draft, target))
    reports = audit_with(scorer, arms, ALPHA, baseline_arm=None)
    return list(first_evidence(reports).values())
