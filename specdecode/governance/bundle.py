"""Write an evidence bundle: everything a stranger needs to check a verdict, in one archive.

docs/evidence.md says what is in it and what it proves. The archive is deterministic and not
compressed: the same input gives the same bytes on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from specdecode.durable import written_whole
from specdecode.errors import ConfigError
from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.chain import Entry
from specdecode.governance.dsse import Envelope, sign_payload
from specdecode.governance.ledger import verify_ledger
from specdecode.governance.plan import canonical_json, load_plan, plan_sha256
from specdecode.governance.signers import load_signers
from specdecode.governance.signing import SigningKey
from specdecode.governance.statements import VerdictRecord, write_statement
from specdecode.governance.timestamps import utc_text
from specdecode.governance.verifier import GUIDE, PROGRAM, pack
from specdecode.governance.withheld import Withheld
from specdecode.measurement.records import checked, to_records

BUNDLE_SCHEMA = "specdecode.bundle/1"
NO_ANCHOR: Mapping[str, Any] = {"name": "none", "head": None, "proof": None}


def write_bundle(
    out: Path | str,
    *,
    at: datetime,
    plan_file: Path | str,
    verdict: bytes,
    rows: pa.Table,
    audit: Mapping[str, Any],
    manifest: Mapping[str, Any],
    data_quality: bytes,
    dvc_lock: bytes,
    seal: Envelope | None = None,
    signers: Path | str | None = None,
    ledger: bytes | None = None,
    anchors: Sequence[Mapping[str, Any]] = (),
    approvals: Sequence[Envelope] = (),
    cards: Mapping[str, bytes] | None = None,
    withheld: Withheld | None = None,
    key: SigningKey | None = None,
) -> str:
    """Write the archive in one step: readers see no half of it.

    What is written is not checked here; `verifier.verify` on the result does that.

    Args:
        out: the archive; its folder is made.
        at: when the bundle is made, by which approvals must not have expired. An argument and not
            the clock, so that the same input gives the same bytes.
        plan_file: the plan as written (YAML).
        verdict: the verdict file, whose hash approvals are of.
        rows: a table with the columns of a record.
        audit: the audit document of these rows.
        manifest: the input manifest, with its entries.
        data_quality: the file of data-quality results, as it was hashed into the manifest.
        dvc_lock: the file dvc.lock.
        seal: of the plan; without it the verifier calls the bundle INVALID unless told not to.
        signers: file of those whose signatures count; needed with anything signed.
        ledger: its bytes.
        anchors: evidence of each anchor, as `anchor.AnchorEvidence`; none is said to be none.
        approvals: every decision on this verdict that the ledger has.
        cards: model cards by file name.
        withheld: how to withhold the rows' texts; None puts the rows in whole.
        key: signs the bundle as a whole; its public half must be among `signers`.

    Returns:
        SHA-256 of the archive.

    Raises:
        ConfigError: the plan or the signers cannot be read, there are no rows, or something is
            signed by a key that is not among the signers.
        EvidenceError: the rows are no rows.
        TamperedError: the ledger is broken.
    """
    _check_signers(signers, [*([seal] if seal else []), *approvals], key)
    plan_file = Path(plan_file)
    plan = load_plan(plan_file)
    lines = sorted(record.to_json_line() for record in to_records(checked(rows)))
    if not lines:
        raise ConfigError("there are no rows; an empty bundle would be evidence of nothing")
    row_files, form = _whole(lines) if withheld is None else withheld.files(lines)
    record = {
        "schema": "specdecode.bundle.record/1",
        "at": utc_text(at),
        "rows": form,
        "anchors": [dict(anchor) for anchor in anchors or (NO_ANCHOR,)],
        "ledger_head": None if ledger is None else verify_ledger(ledger).intact().head,
    }
    files = row_files | {
        "VERIFY.md": GUIDE.read_bytes(),
        "verify.py": PROGRAM.read_bytes(),
        "plan.yaml": plan_file.read_bytes(),
        "plan.json": canonical_json(plan).encode("utf-8"),
        "verdict.json": verdict,
        "audit.json": _json(audit),
        "manifest.json": _json(manifest),
        "data_quality.json": data_quality,
        "dvc.lock": dvc_lock,
        "record.json": _json(record),
    }
    if seal is not None:
        files["seal.json"] = seal.to_bytes()
    if signers is not None:
        files["signers.yaml"] = Path(signers).read_bytes()
    if ledger is not None:
        files["ledger.jsonl"] = ledger
    files |= {f"approvals/{i:03}.json": given.to_bytes() for i, given in enumerate(approvals)}
    files |= {f"cards/{_plain(name)}": content for name, content in (cards or {}).items()}
    files["MANIFEST.json"] = manifest_of(files)
    if key is not None:
        about = VerdictRecord(
            verdict_sha256=sha256_hex(verdict), plan_sha256=plan_sha256(plan),
            status=json.loads(verdict)["status"], at=utc_text(at),
        )  # fmt: skip
        subjects = {"MANIFEST.json": sha256_hex(files["MANIFEST.json"])}
        files["signature.json"] = sign_payload(write_statement(about, subjects), key).to_bytes()
    archive = pack(files)
    out = Path(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(out) as file:
            file.write(archive)
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written ({error.strerror or error})") from error
    return sha256_hex(archive)


def newest(entries: Sequence[Entry], rows: pa.Table) -> datetime:
    """The latest time in ledger and rows, which is the earliest that a bundle of them can have.

    Args:
        entries: of the ledger; may be empty.
        rows: with the columns of a record.

    Raises:
        ConfigError: nothing has a time.
    """
    started: datetime | None = pc.max(rows.column("started_at")).as_py()
    times = [*(entry.time for entry in entries[-1:]), *([] if started is None else [started])]
    if not times:
        raise ConfigError("no ledger and no row says when; state a time, 2026-11-30T04:00:00Z say")
    return max(times)


def manifest_of(files: Mapping[str, bytes]) -> bytes:
    """MANIFEST.json: SHA-256 and size of every other file but the signature over it."""
    listed = {
        name: {"sha256": sha256_hex(content), "bytes": len(content)}
        for name, content in files.items()
        if name not in ("MANIFEST.json", "signature.json")
    }
    return canonical_bytes({"schema": BUNDLE_SCHEMA, "files": listed})


def _check_signers(
    signers: Path | str | None, signed: Sequence[Envelope], key: SigningKey | None
) -> None:
    ids = {signature.keyid for envelope in signed for signature in envelope.signatures}
    ids |= set() if key is None else {key.key_id}
    known = None if signers is None else load_signers(signers)
    if unknown := sorted(name for name in ids if known is None or known.get(name) is None):
        raise ConfigError(
            f"signed with key {unknown[0]}, which is not among the signers; the bundle would not "
            "verify: add the key to the signers file"
        )


def _whole(lines: Sequence[str]) -> tuple[dict[str, bytes], dict[str, Any]]:
    content = "".join(f"{line}\n" for line in lines).encode("utf-8")
    return {"rows.jsonl": content}, {"form": "full"}


def _json(document: Mapping[str, Any]) -> bytes:
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8") + b"\n"


def _plain(name: str) -> str:
    if not name.isascii() or not name.isprintable() or name.startswith(".") or "/" in name:
        raise ConfigError(f"{name!r}: a model card needs a plain file name in ASCII")
    return name
