"""Where a release keeps what was judged: rows, audit and verdict of each step's first GO.

    RECORDS/release-1a2b3c4d-5e6f7a8b/       first digits of plan and manifest
        journal.jsonl                        what was decided and done
        canary-0.05-….verdict.json           the verdict that people sign
        canary-0.05-….rows.parquet           the rows it was reached from, no more and no fewer
        canary-0.05-….audit.json             the audit of these rows, where there is one
        canary-0.05-….KEY.approval.json      a signature, as `specdecode approve` writes it
        approvals/                           signatures that came another way
        canary-0.5-….evidence.zip            the bundle a promotion rests on

Rows go on coming while people read a verdict. So the first GO of a step is put on record once, with
its rows, and never replaced: what was signed stays what was judged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.flows.journal import Journal
from specdecode.durable import written_whole
from specdecode.errors import EvidenceError
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.durable import create_file
from specdecode.governance.ladder_facts import Place, stage_key
from specdecode.governance.plan import plan_sha256
from specdecode.governance.plan_schema import Plan
from specdecode.governance.verdict import Verdict
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import read_parquet, write_parquet
from specdecode.measurement.source import TableSource

VERDICT, ROWS, AUDIT, EVIDENCE = ".verdict.json", ".rows.parquet", ".audit.json", ".evidence.zip"


@dataclass(frozen=True)
class OnRecord:
    """A step's first GO.

    Attributes:
        key: of the step.
        verdict: its file.
        rows: file of the rows it was reached from.
        audit: file of their audit; it need not be there.
        sha256: of the verdict's bytes, which people sign.
        status: as the verdict says.
    """

    key: str
    verdict: Path
    rows: Path
    audit: Path
    sha256: str
    status: str

    @property
    def evidence(self) -> Path:
        """Where its bundle is written."""
        return self.verdict.with_name(f"{self.key}{EVIDENCE}")

    def table(self) -> pa.Table:
        """The rows.

        Raises:
            EvidenceError: they are not there, or are not those that were judged.
        """
        document = json.loads(self.verdict.read_bytes())
        table = read_parquet(self.rows)
        if rows_sha256(TableSource(table)) != document["rows_sha256"]:
            raise EvidenceError(
                f"{self.rows}: these are not the rows that {self.verdict.name} was reached from"
            )
        return table


class Records:
    """The folder of one release.

    Args:
        root: folder of all releases; it is made.
        plan: of this one.
        manifest_sha256: of this one.
    """

    def __init__(self, root: Path, plan: Plan, manifest_sha256: str) -> None:
        self._plan, self._manifest = plan, manifest_sha256
        self.folder = root / f"release-{plan_sha256(plan)[:8]}-{manifest_sha256[:8]}"
        self.inbox.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(self.folder / "journal.jsonl")

    @property
    def inbox(self) -> Path:
        """Folder for signatures that were not made beside the verdict."""
        return self.folder / "approvals"

    def key(self, place: Place) -> str:
        """Name of a step of this release."""
        return stage_key(self._plan, self._manifest, place)

    def find(self, place: Place) -> OnRecord | None:
        """The first GO of a step, if it was put on record."""
        key = self.key(place)
        path = self._file(key, VERDICT)
        if not path.exists():
            return None
        return self._on_record(key, path.read_bytes())

    def find_signed(self, verdict_sha256: str) -> OnRecord | None:
        """The step whose verdict has that digest."""
        for path in sorted(self.folder.glob(f"*{VERDICT}")):
            content = path.read_bytes()
            if sha256_hex(content) == verdict_sha256:
                return self._on_record(path.name.removesuffix(VERDICT), content)
        return None

    def keep(
        self, place: Place, verdict: Verdict, rows: pa.Table, audit: Mapping[str, Any] | None
    ) -> OnRecord:
        """Put the first GO of a step on record; a later one finds the first.

        The verdict comes last: where it is, the rows are.
        """
        found = self.find(place)
        if found is not None:
            return found
        key = self.key(place)
        write_parquet(rows, self._file(key, ROWS))
        if audit is not None:
            with written_whole(self._file(key, AUDIT)) as file:
                file.write(json.dumps(audit, sort_keys=True, allow_nan=False).encode() + b"\n")
        create_file(self._file(key, VERDICT), verdict.to_bytes())
        kept = self.find(place)
        if kept is None:  # the folder was taken away under us
            raise EvidenceError(f"{self.folder}: the verdict that was just written is gone")
        return kept

    def _on_record(self, key: str, content: bytes) -> OnRecord:
        path = self._file(key, VERDICT)
        try:
            status = str(json.loads(content)["status"])
        except (ValueError, KeyError, TypeError) as error:
            raise EvidenceError(f"{path}: is no verdict any more; it was changed") from error
        return OnRecord(
            key=key,
            verdict=path,
            rows=self._file(key, ROWS),
            audit=self._file(key, AUDIT),
            sha256=sha256_hex(content),
            status=status,
        )

    def _file(self, key: str, suffix: str) -> Path:
        return self.folder / f"{key}{suffix}"
