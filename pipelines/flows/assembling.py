"""A release put together from its options."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.flows.approvals import People
from pipelines.flows.evidence import BundleMaker
from pipelines.flows.judging import Auditor, Judge
from pipelines.flows.kept_looks import keep_look
from pipelines.flows.options import (
    AuditOptions,
    RegistryOptions,
    ReleaseOptions,
    manifest_of,
    token_of,
)
from pipelines.flows.records import Records
from pipelines.flows.release import Bundle, Registry, Release
from pipelines.flows.router_client import RouterClient
from pipelines.flows.telling import Teller
from specdecode.errors import ConfigError, EvidenceError
from specdecode.governance.ladder_actions import Action
from specdecode.governance.ladder_facts import Place
from specdecode.governance.ledger import Ledger
from specdecode.governance.plan import load_plan
from specdecode.governance.plan_schema import Plan
from specdecode.governance.signers import load_signers
from specdecode.governance.verdict import Verdict
from specdecode.rollout.spool_cache import SegmentCache
from specdecode.rollout.spool_reader import read_spool

READS = 2
"""A reading that fails is tried once more: a segment may have been closed in between."""


def release_of(
    options: ReleaseOptions, by: str, log: logging.Logger | logging.LoggerAdapter[logging.Logger]
) -> Release:
    """The release that options describe.

    Args:
        options: of it.
        by: name of the flow, as the router records it.
        log: of the flow's run.

    Raises:
        ConfigError: a file cannot be read, or there is no token.
    """
    manifest, people = manifest_of(options.manifest), people_of(options)
    plan, digest = people.plan, str(manifest["manifest_sha256"])
    records = Records(options.records, plan, digest)
    named, audit = plan.approvals.signers_file, _auditor(options.audit, plan)
    judge = Judge(
        plan=plan,
        manifest=manifest,
        rows=SpoolRows(options.spool, digest, SegmentCache(records.folder / "spool-cache")),
        records=records,
        audit=audit,
        gate=options.gate_file,
        entry=options.entry_verdict,
    )
    return Release(
        plan=plan,
        manifest_sha256=digest,
        router=RouterClient(options.router, token_of(options)),
        judge=judge,
        records=records,
        people=people,
        tell=Teller(plan, digest, log),
        evidence=BundleMaker(
            plan_file=options.plan,
            manifest=manifest,
            data_quality=options.data_quality,
            dvc_lock=options.dvc_lock,
            ledger=options.ledger,
            signers=None if named is None else Path(named),
            unsealed=options.unsealed,
            given=options.bundle,
            audit=audit,
        ),
        registry=None if options.registry is None else LazyRegistry(options.registry, digest),
        by=by,
        shadow_share=options.shadow_share,
        begin_again=options.begin_again,
        show=partial(keep_for_mlflow, options, log),
    )


def keep_for_mlflow(
    options: ReleaseOptions,
    log: logging.Logger | logging.LoggerAdapter[logging.Logger],
    place: Place | None,
    action: Action,
    verdict: Verdict | None,
) -> None:
    """Keeps for MLflow what is about to be done; never raises, for it must not hinder that.

    Args:
        options: of the release.
        log: hears of what could not be kept.
        place: the step.
        action: what is about to be done.
        verdict: why; without one there is nothing to show.
    """
    try:
        if place is not None and verdict is not None:
            keep_look(options, place, type(action).__name__, verdict)
    except Exception as error:  # noqa: BLE001 - disks, a manifest that is gone
        log.warning("not kept for MLflow: %s: %s", type(error).__name__, error)


def people_of(options: ReleaseOptions) -> People:
    """Who may sign, by the plan.

    Raises:
        ConfigError: the plan cannot be read.
    """
    plan = load_plan(options.plan)
    named = plan.approvals.signers_file
    signers, trouble = None, None
    try:
        signers = None if named is None else load_signers(named)
    except ConfigError as error:  # nobody can sign then; harm can still be taken back
        trouble = str(error)
    return People(plan, signers, Ledger(options.ledger), unsealed=options.unsealed, trouble=trouble)


@dataclass(frozen=True)
class LazyRegistry:
    """The registry, asked for only where an alias moves: MLflow may be away, and harm goes on.

    Attributes:
        options: where it is.
        manifest_sha256: of the release, whose version it is about.
    """

    options: RegistryOptions
    manifest_sha256: str

    def champion(self) -> str | None:
        """As `release.Registry`."""
        return self._found.champion()

    def promote(self, bundle: Bundle, *, replaces: str | None) -> None:
        """As `release.Registry`."""
        self._found.promote(bundle, replaces=replaces)

    def demote(self, reason: str) -> None:
        """As `release.Registry`."""
        self._found.demote(reason)

    @cached_property
    def _found(self) -> Registry:
        from pipelines.flows.registry import MlflowRegistry, registered  # MLflow takes seconds

        own = self.options
        version = own.version or registered(
            own.uri, own.model, self.manifest_sha256, own.source, own.lock
        )
        return MlflowRegistry(own.uri, own.model, version, own.lock)


@dataclass(frozen=True)
class SpoolRows:
    """Rows of one release, as the router's spool has them.

    Attributes:
        folder: the spool.
        manifest_sha256: of the release.
        memory: what was read of closed segments by earlier looks; None reads all of them.
    """

    folder: Path
    manifest_sha256: str
    memory: SegmentCache | None = None

    def __call__(self, stage: str) -> pa.Table:
        """All rows of a stage.

        Raises:
            ConfigError: there is no spool.
            EvidenceError: it is not what was written.
        """
        if not self.folder.is_dir():
            raise ConfigError(
                f"{self.folder}: no such folder; name the spool of the running router "
                "(STATE_DIR/spool)"
            )
        for _ in range(READS - 1):
            try:
                return self._read(stage)
            except EvidenceError:
                continue
        return self._read(stage)

    def _read(self, stage: str) -> pa.Table:
        return read_spool(
            self.folder, stage=stage, manifest_sha256=self.manifest_sha256, memory=self.memory
        )


def _auditor(options: AuditOptions | None, plan: Plan) -> Auditor | None:
    if options is None:
        return None

    def audit(rows: pa.Table) -> Mapping[str, Any]:
        from pipelines import settings

        settings.work_offline()
        from specdecode.audit import audit_arms
        from specdecode.measurement.digest import rows_sha256
        from specdecode.measurement.records import to_records
        from specdecode.models import load_model

        arms: dict[str, list[dict[str, Any]]] = {}
        records = list(to_records(rows))
        for record in records:
            arms.setdefault(record.arm, []).append(record.model_dump())
        reports = audit_arms(
            arms,
            load_model(options.target, dtype=options.dtype),
            options.draft,
            options.alpha,
            baseline_arm=plan.baseline,
        )
        return {
            "schema": "specdecode.audit/1",
            "alpha": options.alpha,
            "rows_sha256": rows_sha256(records),
            "arms": {arm: report.to_json() for arm, report in reports.items()},
        }

    return audit
