"""What an attacker does to the files of a bundle, before any check looks at them."""

from __future__ import annotations

import json
import zipfile
from datetime import datetime

from specdecode.governance import plan_sha256
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.verifier.verify import rows_digest
from tests.governance.bundles import case, chained, decision_line, edited, good, repacked

NAMES = [
    "MANIFEST.json", "VERIFY.md", "approvals/000.json", "audit.json", "cards/draft.md",
    "cards/target.md", "data_quality.json", "dvc.lock", "ledger.jsonl", "manifest.json",
    "plan.json", "plan.yaml", "record.json", "rows.jsonl", "seal.json", "signature.json",
    "signers.yaml", "verdict.json", "verify.py",
]  # fmt: skip
UNBOUND = ["VERIFY.md", "cards/draft.md", "cards/target.md", "dvc.lock", "verify.py"]
"""Files that nothing but MANIFEST.json, and a signature over it, speaks for."""


def unsigned(files, **changes):
    """The files without the signature, some replaced, or left out where None."""
    kept = {name: content for name, content in files.items() if name != "signature.json"}
    return {name: content for name, content in (kept | changes).items() if content is not None}


def flipped(content, at):
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


def compact(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


OWN, PLAN = good().verdict_sha256, plan_sha256(good().plan)


def with_approval(files, envelope):
    """The approval in place, and recorded in a ledger written anew."""
    kept = [json.loads(line) for line in files["ledger.jsonl"].splitlines()[:-1]]
    times = [datetime.fromisoformat(line["at"]) for line in kept]
    lines = [(line["kind"], at, line["body"]) for line, at in zip(kept, times, strict=True)]
    ledger = chained(*lines, decision_line(envelope, OWN))
    return with_head(files, ledger) | {"approvals/000.json": envelope.to_bytes()}


def with_head(files, ledger):
    """The ledger in place, and the bundle's record of its head made to fit."""
    head = sha256_hex(ledger.splitlines()[-1])
    change = lambda r: r.update(ledger_head=head)  # noqa: E731
    return unsigned(
        files, **{"ledger.jsonl": ledger, "record.json": edited(files["record.json"], change)}
    )


def lines_of(ledger):
    return ledger.splitlines(keepends=True)


SEAL, APPROVED = good().seal, decision_line(good().approval, OWN)


def rows_changed(files, change):
    """Rows changed, and their digest in audit and verdict with them: no hash is left to see it."""
    rows = [json.loads(line) for line in files["rows.jsonl"].splitlines()]
    rows = change(rows) or rows
    lines = sorted(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() for row in rows)
    digest = rows_digest(rows)
    same = lambda document: document.update(rows_sha256=digest)  # noqa: E731
    return {
        "rows.jsonl": b"".join(line + b"\n" for line in lines),
        "audit.json": edited(files["audit.json"], same),
        "verdict.json": edited(files["verdict.json"], same),
    }


def swap_arms(rows):
    other = {"plain": "block", "block": "plain"}
    for row in rows:
        row["arm"] = other.get(row["arm"], row["arm"])


def faster(rows):
    for row in rows:
        if row["arm"] == "block" and row["prompt_id"] == "p0003":
            row["e2e_s"] *= 0.9
            row["tpot_s"] = None


def exchange_prompts(rows):
    other = {"p0001": "p0002", "p0002": "p0001"}
    for row in rows:
        if row["arm"] == "block":
            row["prompt_id"] = other.get(row["prompt_id"], row["prompt_id"])


def other_inputs(rows):
    for row in rows:
        row["manifest_sha256"] = "b" * 64


def swap_drafting_arms(rows):
    """Both draft with the same length, so only their numbers can tell."""
    other = {"token": "block", "block": "token"}
    for row in rows:
        row["arm"] = other.get(row["arm"], row["arm"])


def measured_backwards(rows):
    last = max(row["order_index"] for row in rows) + len(rows)
    for place, row in enumerate(rows):
        row["order_index"] = last - place


def measured_before_the_seal(rows):
    for row in rows:
        row["started_at"] = row["started_at"].replace("2026-01-01", "2025-12-01")


def drop_arm(rows):
    return [row for row in rows if row["arm"] != "block"]


def drop_some(rows):
    return [row for row in rows if row["arm"] != "block" or row["prompt_id"] > "p0002"]


def lower(document):
    next(r for r in document["rules"] if r["name"] == "block-faster")["threshold"] = 0.5


def other_files(tmp_path, **arguments):
    """Files of a bundle made afresh by the project's own code, but without the keys."""
    made = case(**arguments)
    with zipfile.ZipFile(made.write(tmp_path, "other.zip")) as archive:
        return made, {name: archive.read(name) for name in archive.namelist()}


def stolen(bundle, files):
    """The other files with the signatures and the ledger of the bundle."""
    kept = ("seal.json", "approvals/000.json", "ledger.jsonl", "record.json", "signers.yaml")
    return repacked(files | {name: bundle[name] for name in kept})
