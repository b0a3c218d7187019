"""The verdict of the step a router is at, from the rows recorded so far."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.flows.records import Records
from specdecode.durable import written_whole
from specdecode.errors import ConfigError, EvidenceError
from specdecode.governance import Status, Verdict, decide
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.integrity import unreadable
from specdecode.governance.ladder_budget import spent
from specdecode.governance.ladder_facts import Judged, Place, judged
from specdecode.governance.plan import plan_sha256
from specdecode.governance.plan_schema import Plan

log = logging.getLogger(__name__)

Rows = Callable[[str], pa.Table]
"""All rows of a stage of this release, every step of it."""

Auditor = Callable[[pa.Table], Mapping[str, Any]]
"""The audit document of rows, {"alpha": …, "arms": {arm: report}, "rows_sha256": …}."""

SPENDABLE = (Status.GO, Status.INCONCLUSIVE)


@dataclass(frozen=True)
class Judge:
    """Reads rows and decides.

    Attributes:
        plan: as written.
        manifest: the input manifest, {"manifest_sha256": …, "entries"?: …}.
        rows: reads what the router recorded.
        records: where the first GO of a step goes.
        audit: audits rows; None: nobody does, so a stage that asks for losslessness is INVALID.
        gate: file the router's /gate shows; None: there is none.
        entry: verdict of the stage before users, where no shadow comes first; None: there is none.
    """

    plan: Plan
    manifest: Mapping[str, Any]
    rows: Rows
    records: Records
    audit: Auditor | None = None
    gate: Path | None = None
    entry: Path | None = None

    def look(self, place: Place, now: datetime) -> tuple[Judged, Verdict | None]:
        """Judge a step by all rows of its stage so far; the first GO of it is put on record.

        A canary is judged over all its steps: each step has its own entries in the verdict, the
        alarms of all of them share one level, and its window begins with its first row.

        Raises:
            EvidenceError: what lies on record for this step is broken.
            ConfigError: the plan cannot judge this stage.
        """
        if place.stage in ("offline", "confirmation"):
            return self._before(place), None
        view = self.plan.at(place.stage)
        try:
            rows = self.rows(place.stage)
        except EvidenceError as error:
            broken = self._unreadable(str(error))
            self._publish(broken, place)
            return judged(self.plan, broken, place), broken
        asks = any(rule.kind == "losslessness" for rule in view.rules)
        audit = self.audit(rows) if self.audit is not None and asks and len(rows) else None
        verdict = decide(view, rows, audit, self.manifest)
        if verdict.status not in SPENDABLE:  # harm is told whatever else is wrong on this disk
            self._publish(verdict, place)
            return judged(self.plan, verdict, place), verdict
        kept = self.records.find(place)
        if verdict.status is Status.GO and kept is None and _speaks_of(verdict, place):
            kept = self.records.keep(place, verdict, rows, audit)
        self._publish(verdict, place)
        used = spent(view, rows, place.step, now)
        on_record = None if kept is None or kept.status != Status.GO.value else kept.sha256
        return judged(self.plan, verdict, place, spent=used, on_record=on_record), verdict

    def _before(self, place: Place) -> Judged:
        """What an evaluation before users said, which was decided elsewhere."""
        if self.entry is None:
            reason = f"no verdict of {place} was given (entry_verdict)"
            return Judged(place, Status.INCONCLUSIVE, plan_sha256(self.plan), None, frozenset(),
                          (reason,))  # fmt: skip
        try:
            content = self.entry.read_bytes()
            verdict = Verdict.model_validate(_without_schema(json.loads(content)))
        except (OSError, ValueError) as error:  # pydantic's error is a ValueError too
            raise ConfigError(
                f"{self.entry}: is no verdict as `specdecode decide --json` writes it ({error})"
            ) from error
        on_record = sha256_hex(content) if verdict.status is Status.GO else None
        return judged(self.plan, verdict, place, on_record=on_record)

    def _unreadable(self, why: str) -> Verdict:
        """Rows that are not what was written are no basis for anything."""
        entry = unreadable(why)
        return Verdict(
            status=Status.INVALID,
            plan_name=self.plan.name,
            plan_sha256=plan_sha256(self.plan),
            claim=self.plan.claim,
            owner=self.plan.owner,
            manifest_sha256=None,
            rows_sha256=None,
            rows=0,
            prompts=0,
            reasons=[f"{entry.name}: {entry.reason}"],
            to_change=[] if entry.remedy is None else [entry.remedy],
            reopen_when=list(self.plan.reopen_when),
            overturned_by=list(self.plan.overturned_by),
            rules=[entry],
        )

    def withdraw(self) -> None:
        """Before a step up: what /gate shows is of the step that is left, and says GO."""
        if self.gate is not None:
            self.gate.unlink(missing_ok=True)

    def _publish(self, verdict: Verdict, place: Place) -> None:
        """For the router's /gate: the verdict, and of which step it is.

        A canary's verdict may be GO by the numbers of the steps before alone, while nothing of this
        one is known: then there is nothing to go on by.
        """
        if self.gate is None:
            return
        document = verdict.to_json()
        if verdict.status is Status.GO and not _speaks_of(verdict, place):
            document |= {
                "status": Status.INCONCLUSIVE.value,
                "reasons": [f"{place} has no numbers yet"],
            }
        document |= {
            # Before there are rows a verdict names no manifest; the gate's is this release's.
            "manifest_sha256": verdict.manifest_sha256 or self.manifest["manifest_sha256"],
            "stage": place.stage,
            "step": place.step,
        }
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        try:
            with written_whole(self.gate) as file:
                file.write(f"{text}\n".encode())
        except OSError as error:  # a view must not hinder the release; an old one must not stay
            log.warning("%s: cannot be written (%s)", self.gate, error)
            self.withdraw()


def _speaks_of(verdict: Verdict, place: Place) -> bool:
    """Whether a canary's verdict has a number of this step; of other stages it always has."""
    marks = f"step={place.step}"
    return place.step is None or any(marks in (e.stratum or "").split(", ") for e in verdict.rules)


def _without_schema(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "schema"}
