"""The bundle that a promotion rests on: written from what is on record, and verified at once.

The verifier is the program that travels in the bundle. What it does not call GO is not promoted.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.flows.judging import Auditor
from pipelines.flows.records import OnRecord
from pipelines.flows.release import Bundle
from pipelines.stages.command import write_json
from specdecode.errors import ConfigError, EvidenceError
from specdecode.governance.approvals import decisions_on
from specdecode.governance.bundle import newest, write_bundle
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.dsse import parse_envelope
from specdecode.governance.ledger import verify_ledger
from specdecode.governance.signing import SigningKey
from specdecode.governance.subjects import file_sha256
from specdecode.governance.verifier import verify

_BAD = ("failed", "tampered")


@dataclass(frozen=True)
class BundleMaker:
    """Makes and checks bundles of one release.

    Attributes:
        plan_file: the plan as written; its seal and anchor lie beside it.
        manifest: the input manifest, with entries.
        data_quality: results of the data checks that the manifest names.
        dvc_lock: the file dvc.lock.
        ledger: with the seal and the decisions.
        signers: whose signatures count; None where nothing is signed.
        key: signs the bundle as a whole; None: nobody does.
        unsealed: accept a bundle without a seal; for rehearsals.
        given: a bundle made elsewhere, which takes the place of one made here.
        audit: audits the rows where the verdict was reached without; None: nobody does.
    """

    plan_file: Path
    manifest: Mapping[str, Any]
    data_quality: Path | None
    dvc_lock: Path | None
    ledger: Path
    signers: Path | None = None
    key: SigningKey | None = None
    unsealed: bool = False
    given: Path | None = None
    audit: Auditor | None = None

    def __call__(self, kept: OnRecord) -> Bundle:
        """The bundle of a verdict on record; one that was made before and holds is taken again.

        Raises:
            EvidenceError: something is missing, or the bundle does not verify as GO, or is of
                another verdict.
            ConfigError: a file cannot be read.
        """
        path = self.given or kept.evidence
        if self.given is None and not self._holds(path):
            self._write(path, kept)
        return self._checked(path, kept)

    def _holds(self, path: Path) -> bool:
        return path.exists() and verify(path, unsealed=self.unsealed)["exit_code"] == 0

    def _write(self, path: Path, kept: OnRecord) -> None:
        rows = kept.table()
        if not kept.audit.exists():
            if self.audit is None:
                raise EvidenceError(
                    f"{kept.verdict.name} has no audit beside it: nobody has looked whether the "
                    "outputs are the target's. Give the flow a target to audit with (audit)"
                )
            write_json(kept.audit, self.audit(rows))
        lines = self.ledger.read_bytes() if self.ledger.exists() else None
        entries = () if lines is None else verify_ledger(lines).intact(str(self.ledger)).entries
        seal, anchor = (self.plan_file.with_suffix(f".{n}.json") for n in ("seal", "anchor"))
        sealed = parse_envelope(seal.read_bytes()) if seal.exists() else None
        decisions = decisions_on(kept.sha256, entries)
        signed = sealed is not None or bool(decisions) or self.key is not None
        write_bundle(
            path,
            at=newest(entries, rows),
            plan_file=self.plan_file,
            verdict=kept.verdict.read_bytes(),
            rows=rows,
            audit=json.loads(kept.audit.read_bytes()),
            manifest=self.manifest,
            data_quality=_needed(self.data_quality, "data_quality"),
            dvc_lock=_needed(self.dvc_lock, "dvc_lock"),
            seal=sealed,
            signers=self.signers if signed else None,
            ledger=lines,
            anchors=[json.loads(anchor.read_bytes())] if anchor.exists() else (),
            approvals=decisions,
            key=self.key,
        )

    def _checked(self, path: Path, kept: OnRecord) -> Bundle:
        if not path.exists():
            raise EvidenceError(f"{path}: there is no such bundle")
        result = verify(path, unsealed=self.unsealed)
        if result["exit_code"] != 0 or result["status"] != "GO":
            wrong = [c for c in result["checks"] if c["result"] in _BAD]
            why = "; ".join(f"{c['name']}: {c['text']}" for c in wrong) or "its verdict is no GO"
            raise EvidenceError(f"{path}: verify says {result['status']}: {why}")
        with zipfile.ZipFile(path) as archive:
            verdict = archive.read("verdict.json")
        document = json.loads(verdict)
        if sha256_hex(verdict) != kept.sha256:
            raise EvidenceError(f"{path}: is of another verdict than {kept.verdict.name}")
        return Bundle(
            path=path,
            sha256=file_sha256(path),
            plan_sha256=document["plan_sha256"],
            verdict_sha256=kept.sha256,
            manifest_sha256=document["manifest_sha256"],
        )


def _needed(path: Path | None, name: str) -> bytes:
    if path is None:
        raise ConfigError(f"a bundle needs {name}: name the file in the flow's parameters")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
