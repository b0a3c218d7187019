"""How many tokens it takes the audit to find each planted fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.audit_report.models import study_models
from pipelines.audit_report.rows import Row, drawn_rows, first_evidence
from pipelines.audit_report.settings import ALPHA, GAMMA, REPLY, Study
from pipelines.audit_report.store import code_sha256, keep, kept
from specdecode import Engine
from specdecode.audit.draft_source import draft_source
from specdecode.audit.faults import FAULTS, plant
from specdecode.audit.model_scorer import ModelScorer
from specdecode.audit.run import audit_with
from specdecode.models import LoadedModel

GROUP = 10
"""Runs that are decoded and audited together; a run that is cut off loses one group at most."""


def tokens_needed(name: str, runs: range, study: Study, data: Path) -> list[int | None]:
    """Tokens that each of these runs reads before the fault is found; None: not within the limit.

    Args:
        name: of the fault.
        runs: a group of them.
        study: its numbers.
        data: folder of what is kept.
    """
    settings = study.of_faults() | {"code": code_sha256()}
    path = data / "faults" / f"{name}-{runs.start:03d}-{runs.stop:03d}.json"
    found = kept(path, settings)
    if found is None:
        found = _simulated(name, runs, study, data)
        keep(path, settings, found)
    return list(found)


def speculative(target: LoadedModel, draft: LoadedModel, verification: str) -> Engine:
    """The right engine of the study."""
    return Engine.load(
        target=target,
        draft=draft.path,
        verification=verification,
        num_speculative_tokens=GAMMA,
    )


def _simulated(name: str, runs: range, study: Study, data: Path) -> list[int | None]:
    fault = FAULTS[name]
    target, draft = study_models(data / "models")
    engine = plant(speculative(target, draft, fault.fits[0]), fault)
    scorer = ModelScorer(target, draft_source(draft, target))
    rows: dict[int, list[Row]] = {run: [] for run in runs}
    found: dict[int, int | None] = dict.fromkeys(runs)
    for stage in study.stages:
        going = [run for run in runs if found[run] is None]
        if not going:
            break
        asked = [(run, row) for run in going for row in range(len(rows[run]), stage // REPLY)]
        drawn = drawn_rows(engine, fault.sampling, asked, name=name, seed=study.seed, reply=REPLY)
        for (run, _), row in zip(asked, drawn, strict=True):
            rows[run].append(row)
        arms: dict[str, Any] = {str(run): rows[run] for run in going}
        reports = audit_with(scorer, arms, ALPHA, baseline_arm=None)
        for arm, tokens in first_evidence(reports).items():
            found[int(arm)] = tokens
    return [found[run] for run in runs]
