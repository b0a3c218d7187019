"""A load run from its spec to its summary, and what can still be said of one that was killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specdecode.errors import EvidenceError, UserError
from specdecode.measurement.records import Record, read_records
from specdecode.measurement.spool import RowSpool
from specdecode.workload.load.engine import EngineSide, report_without_counters
from specdecode.workload.load.journal import (
    DETAILS,
    ROWS,
    RUN,
    SAMPLES,
    SENT,
    SPOOL,
    SUMMARY,
    WARM_UP,
    Journal,
    read_lines,
)
from specdecode.workload.load.plan import make_plan
from specdecode.workload.load.progress import Progress
from specdecode.workload.load.resources import Sampler
from specdecode.workload.load.runner import Runner
from specdecode.workload.load.spec import SCHEMA, LoadSpec, manifest_of, manifest_sha256
from specdecode.workload.load.summary import Ended, lost_with_the_client, summarise

Show = Callable[[Progress], AbstractContextManager[Any]]
"""Shows progress while the context is open."""


@dataclass(frozen=True)
class LoadResult:
    """What came of a run.

    Args:
        summary: all numbers; `summary["verdict"]` says whether the run is whole.
        folder: where rows, details and summary are.
    """

    summary: dict[str, Any]
    folder: Path

    @property
    def complete(self) -> bool:
        """Whether everything planned was sent and answered."""
        return bool(self.summary["verdict"]["status"] == "complete")


def run_load(
    spec: LoadSpec,
    folder: Path,
    *,
    api_key: str | None = None,
    engine: EngineSide | None = None,
    server_pid: int | None = None,
    sample_every_s: float = 1.0,
    show: Show | None = None,
) -> LoadResult:
    """Send the load and say what came of it.

    Args:
        spec: what to send, and how.
        folder: new or empty; gets rows, details, samples and the summary.
        api_key: sent as a bearer token, recorded nowhere.
        engine: reads what the server says of itself; None reads nothing.
        server_pid: process whose processor and memory are sampled.
        sample_every_s: time between samples.
        show: shows progress.

    Raises:
        UserError: the plan cannot be made, the folder holds a run, or the disk is full; rows that
            were written are safe.
        LossyEngineError: the server's settings change its target's distribution, and the spec does
            not allow it. Nothing was sent.
    """
    if engine is not None and not spec.allow_lossy:
        engine.refuse_lossy()
    plan = make_plan(spec)
    sampler = Sampler(spec.url, server_pid, sample_every_s)
    manifest = manifest_of(spec, {} if engine is None else engine.witness())
    digest = manifest_sha256(manifest)
    run = {
        "schema": SCHEMA,
        "manifest_sha256": digest,
        "manifest": manifest,
        "planned": plan.total,
        "skipped": dict(plan.skipped),
        "resources_scope": sampler.scope,
        "started_at": datetime.now(UTC).isoformat(),
    }
    progress = Progress(total=plan.total)
    with Journal(folder, run) as journal:

        async def go() -> Any:
            return await Runner(
                spec,
                plan,
                journal,
                manifest_sha256=digest,
                api_key=api_key,
                progress=progress,
                sampler=sampler,
                engine=engine,
            ).run()

        with (show or _unseen)(progress):
            outcome = asyncio.run(go())
        journal.drain()
        journal.finish()
        run["started_at"] = outcome.started_at.isoformat()
        ended = Ended(
            outcome.duration_s,
            outcome.stopped,
            outcome.heartbeat_late_s,
            journal.most_waiting,
            None if engine is None else engine.report(),
        )
    return _conclude(folder, run, spec, read_records(folder / ROWS), ended, energy=outcome.energy)


def recover(folder: Path) -> LoadResult:
    """Rows and summary of a run whose client was killed.

    Requests that were in flight get a row that says so.

    Raises:
        UserError: there is no run in the folder, or another process is at it.
        EvidenceError: its files were damaged.
    """
    if not (folder / RUN).is_file():
        raise UserError(f"{folder} holds no load run; name the folder that --out named")
    try:
        run = json.loads((folder / RUN).read_text(encoding="utf-8"))
        spec = LoadSpec(**run["manifest"]["spec"])
        digest = str(run["manifest_sha256"])
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{folder / RUN}: is not what a load run writes ({error})") from error
    if manifest_sha256(run["manifest"]) != digest:
        raise EvidenceError(f"{folder / RUN}: the manifest is not the one its hash names")
    if (folder / SUMMARY).is_file() and (folder / ROWS).is_file():
        raise UserError(f"{folder}: the run ended by itself; read {folder / SUMMARY}")
    if not (folder / ROWS).is_file():
        _close_spool(folder, digest)
    details = list(read_lines(folder / DETAILS))
    last = max((d["ended_s"] for d in details if d["ended_s"] is not None), default=0.0)
    server = run["manifest"]["server"]
    killed = "the load client was killed"
    engine = report_without_counters(server, [killed]) if server else None
    ended = Ended(last, killed, engine=engine)
    return _conclude(folder, run, spec, read_records(folder / ROWS), ended, energy=None)


def _close_spool(folder: Path, digest: str) -> None:
    if not (folder / SPOOL).is_file():
        raise EvidenceError(f"{folder / SPOOL} is missing; there are no rows to recover")
    with RowSpool(folder, digest) as spool:
        known = {record.request_id for record in spool.records()}
        for asked in read_lines(folder / SENT):
            if asked["request_id"] not in known:
                spool.append(lost_with_the_client(asked))
        spool.finish(folder / ROWS)


def _conclude(
    folder: Path,
    run: Mapping[str, Any],
    spec: LoadSpec,
    records: list[Record],
    ended: Ended,
    *,
    energy: Mapping[str, Any] | None,
) -> LoadResult:
    summary = summarise(
        run,
        spec,
        records,
        list(read_lines(folder / DETAILS)),
        ended,
        warm_up=list(read_lines(folder / WARM_UP)),
        samples=list(read_lines(folder / SAMPLES)),
        energy=energy,
    )
    text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
    return LoadResult(summary, folder)


def _unseen(progress: Progress) -> AbstractContextManager[None]:
    del progress
    return nullcontext()
