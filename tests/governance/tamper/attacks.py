"""What an attacker does to the files of a bundle, before any check looks at them."""

from __future__ import annotations

import json
from datetime import datetime

from specdecode.governance import plan_sha256
from specdecode.governance.canonical import sha256_hex
from tests.governance.bundles import chained, decision_line, edited, good

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
