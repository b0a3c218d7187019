"""The files a report is made from. Nothing else enters it, so equal files give an equal page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from pipelines.report.theme import sort_arms
from specdecode.errors import ConfigError, MissingPrerequisiteError
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.chain import Entry
from specdecode.governance.dsse import parse_envelope
from specdecode.governance.effort import Effort, effort
from specdecode.governance.ledger import verify_ledger
from specdecode.governance.statements import Deviation, read_statement
from specdecode.measurement.records import Record, read_records

Json = dict[str, Any]


@dataclass(frozen=True)
class ReportPaths:
    """Where the inputs lie, below the root of the project."""

    metrics: str = "reports/metrics.json"
    verdict: str = "reports/verdict.json"
    audit: str = "reports/audit.json"
    manifest: str = "reports/manifest.json"
    environment: str = "reports/state/environment.json"
    draft: str = "models/draft/manifest.json"
    plan: str = "plans/default.yaml"
    ledger: str = "plans/ledger.jsonl"
    params: str = "params.yaml"
    flips: str = "reports/flips.json"
    sweep: str = "reports/sweep/sweep.json"
    rows: str = "data/rows.parquet"
    prompts: str = "data/prompts.parquet"


@dataclass(frozen=True)
class ReportInputs:
    """The inputs, read. An optional file that is not there is None and said to be missing.

    Attributes:
        metrics: `specdecode.measurement.summary.summarise`.
        verdict: `Verdict.to_json()`.
        audit, manifest, environment, draft, plan, params: the documents of those stages.
        records: the rows; empty when they were not kept.
        checkers: prompt id to kind of checker, for prompts that have one.
        effort: what the ledger has of the plan and of this verdict; empty without a ledger.
        deviations: from the plan, as the ledger has them, in its order.
        flips: the evaluation with one assumption changed at a time (`specdecode flip`).
        sweep: load measured at several concurrencies (`specdecode sweep`).
    """

    metrics: Json
    verdict: Json
    audit: Json | None = None
    manifest: Json | None = None
    environment: Json | None = None
    draft: Json | None = None
    plan: Json | None = None
    params: Json | None = None
    records: tuple[Record, ...] = ()
    checkers: Mapping[str, str] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)
    deviations: tuple[Deviation, ...] = ()
    flips: Json | None = None
    sweep: Json | None = None

    @property
    def baseline(self) -> str:
        """The arm the others are compared with."""
        return str(self.metrics["baseline_arm"])

    @property
    def arms(self) -> list[str]:
        """All arms, baseline first."""
        others = [str(arm) for arm in self.metrics["arms"] if arm != self.baseline]
        return [self.baseline, *sort_arms(others)]

    @property
    def candidates(self) -> list[str]:
        """The arms that are compared with the baseline."""
        return [arm for arm in self.arms if arm != self.baseline]

    def scopes(self, by: str) -> list[Json]:
        """The numbers overall, or for each value of a partition (category, language, …)."""
        return [scope for scope in self.metrics["scopes"] if scope["by"] == by]

    @property
    def overall(self) -> Json:
        """The numbers over all rows."""
        return self.scopes("overall")[0]


def load_inputs(root: Path, paths: ReportPaths | None = None) -> ReportInputs:
    """Read the inputs.

    Args:
        root: folder of the project.
        paths: where they lie below it.

    Raises:
        MissingPrerequisiteError: metrics or verdict are not there.
        ConfigError: a file is not valid JSON or YAML.
        EvidenceError: the rows are not rows.
        TamperedError: the ledger is broken.
    """
    paths = paths or ReportPaths()
    metrics, verdict = _json(root / paths.metrics), _json(root / paths.verdict)
    for document, path in ((metrics, paths.metrics), (verdict, paths.verdict)):
        if document is None:
            raise MissingPrerequisiteError(
                f"{path} is not there; `make evaluate` (or: dvc repro decide) writes it"
            )
    rows = root / paths.rows
    entries = _entries(root / paths.ledger)
    plan_sha256 = str((verdict or {}).get("plan_sha256"))
    return ReportInputs(
        metrics=metrics or {},
        verdict=verdict or {},
        audit=_json(root / paths.audit),
        manifest=_json(root / paths.manifest),
        environment=_json(root / paths.environment),
        draft=_json(root / paths.draft),
        plan=_yaml(root / paths.plan),
        params=_used(_yaml(root / paths.params)),
        records=tuple(read_records(rows)) if rows.is_file() else (),
        checkers=_checkers(root / paths.prompts),
        effort=effort(entries, plan_sha256, sha256_hex((root / paths.verdict).read_bytes())),
        deviations=tuple(_deviations(entries, plan_sha256)),
        flips=_json(root / paths.flips),
        sweep=_json(root / paths.sweep),
    )


def _json(path: Path) -> Json | None:
    if not path.is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: not valid JSON ({error}); run its stage again") from error
    return _mapping(document, path)


def _yaml(path: Path) -> Json | None:
    if not path.is_file():
        return None
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML ({error})") from error
    return _mapping(document, path)


def _used(params: Json | None) -> Json | None:
    """The parameters of this run: what other profiles would lay over them is left out."""
    return None if params is None else {k: v for k, v in params.items() if k != "profiles"}


def _entries(ledger: Path) -> Sequence[Entry]:
    return verify_ledger(ledger).intact(str(ledger)).entries if ledger.is_file() else ()


def _deviations(entries: Sequence[Entry], plan_sha256: str) -> Iterator[Deviation]:
    """What the lines say. Whether their authors signed them is for `specdecode verify` to check."""
    for entry in entries:
        if entry.kind == "amendment" and entry.body.get("plan_sha256") == plan_sha256:
            envelope = parse_envelope(entry.body.get("envelope") or {})
            yield read_statement(envelope, Deviation)[0]


def _mapping(document: object, path: Path) -> Json:
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected a mapping, found {type(document).__name__}")
    return document


def _checkers(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    rows = pq.read_table(path, columns=["prompt_id", "checker_type"]).to_pylist()
    return {row["prompt_id"]: row["checker_type"] for row in rows if row["checker_type"]}
