"""Bundles in which exactly one check of the verifier finds something.

Most are made by someone who holds every key and writes ledger and approval to fit: what is left
then is the one contradiction meant.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specdecode.governance import Verdict
from specdecode.governance.anchor import AnchorEvidence
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.dsse import Envelope
from specdecode.governance.verifier import pack
from tests.governance.bundles import (
    BUNDLED,
    DECIDED,
    EXPIRES,
    QUALITY_CHECKS,
    SEALED,
    Case,
    approval_of,
    audit_of,
    case,
    chained,
    decision_line,
    edited,
    good,
    repacked,
    seal_line,
    seal_of,
    utc,
)
from tests.governance.faults import integrity as evidence
from tests.governance.keys import ADA
from tests.governance.tamper.attacks import OWN, PLAN

Files = dict[str, bytes]
Document = dict[str, Any]
Make = Callable[[Path], bytes]
"""Makes an archive, with the help of an empty folder."""


@dataclass(frozen=True)
class BundleFault:
    """A bundle with a fault and without. code: exit code. cause: what the output says of it."""

    check: str
    planted: str
    beside: str
    faulty: Make
    neighbour: Make
    code: int
    cause: str


def files_of(archive: Path) -> Files:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def made(**parts: Any) -> Make:
    """The good bundle, with other parts where given."""
    return lambda folder: good().write(folder, **parts).read_bytes()


def attacked(change: Callable[[Files], Mapping[str, bytes]], key: Any = None) -> Make:
    """The good bundle with files changed and MANIFEST.json made to fit."""

    def make(folder: Path) -> bytes:
        files = files_of(good().write(folder, key=key))
        return repacked(files | change(files))

    return make


def forged(own: Case, change: Callable[[Document], object]) -> Case:
    """The case with another verdict, which its ledger and approval will be of."""
    document = own.verdict.to_json()
    change(document)
    fields = {("schema_name" if name == "schema" else name): v for name, v in document.items()}
    return replace(own, verdict=Verdict.model_validate(fields))


def judged(change: Callable[[Document], object]) -> Make:
    return lambda folder: forged(good(), change).write(folder).read_bytes()


def entry(document: Document, name: str) -> Document:
    found: Document = next(e for e in document["rules"] if e["name"] == name)
    return found


def respelled(folder: Path) -> bytes:
    """MANIFEST.json says the same with a space more."""
    files = files_of(good().write(folder))
    return pack(files | {"MANIFEST.json": files["MANIFEST.json"].replace(b":", b": ", 1)})


def exchanged(rows: bytes) -> bytes:
    first, second, *others = rows.splitlines(keepends=True)
    return b"".join([second, first, *others])


def sealed_with(lock: str) -> Make:
    seal = seal_of(PLAN, lock=lock)
    return made(seal=seal, ledger=good().ledger(seal=seal))


def sealed_on(at: Any) -> Make:
    seal = seal_of(PLAN, at=at)
    lines = seal_line(seal, PLAN, at=at), decision_line(good().approval, OWN)
    return made(seal=seal, ledger=chained(*lines))


def decided(envelope: Envelope) -> Make:
    ledger = good().ledger(decisions=[decision_line(envelope, OWN)])
    return made(approvals=[envelope], ledger=ledger)


def anchored(head: str) -> Make:
    return made(anchors=[AnchorEvidence(name="none", head=head, proof=None).model_dump()])


def one_token_less(audit: Document) -> None:
    audit["arms"]["block"]["tokens_read"] -= 1


def hold(document: Document) -> None:
    document.update(status="INCONCLUSIVE", reopen_when=["something changes"], reasons=[])


GOOD = made()
FAULTS = (
    BundleFault("archive", "a byte in front of the archive", "none",
                lambda folder: b"x" + GOOD(folder), GOOD, 3, "do not come from its files"),
    BundleFault("files", "MANIFEST.json spelled with a space more", "as it is spelled",
                respelled, GOOD, 3, "MANIFEST.json was edited"),
    BundleFault("plan", "plan.yaml asks for 0.5, plan.json for 1.1", "both for 1.1",
                attacked(lambda f: {"plan.yaml": f["plan.yaml"].replace(b"1.1", b"0.5")}),
                GOOD, 3, "plan.yaml is not the one measured for"),
    BundleFault("inputs", "data checks with a space more", "as they were",
                made(data_quality=QUALITY_CHECKS + b" "), GOOD,
                3, "data_quality.json is not of these inputs"),
    BundleFault("rows", "two rows exchanged", "in order",
                attacked(lambda f: {"rows.jsonl": exchanged(f["rows.jsonl"])}),
                attacked(lambda f: {"rows.jsonl": exchanged(exchanged(f["rows.jsonl"]))}),
                3, "rows.jsonl is not in order"),
    BundleFault("audit", "one sampled token more judged than read", "as many",
                attacked(lambda f: {"audit.json": edited(f["audit.json"], one_token_less)}),
                attacked(lambda f: {"audit.json": edited(f["audit.json"], lambda _: None)}),
                3, "tokens read disagree"),
    BundleFault("signature", "a model card changed in a bundle that was signed as a whole",
                "nothing changed", attacked(lambda _: {"cards/draft.md": b"# Draft!\n"}, ADA),
                attacked(lambda _: {}, ADA), 3, "another MANIFEST.json was signed"),
    BundleFault("seal", "rows of another requirements.lock than was sealed", "of the sealed one",
                sealed_with("e" * 64), sealed_with("c" * 64),
                3, "another requirements.lock than was sealed"),
    BundleFault("ledger", "a seal that came after the first row", "before it",
                sealed_on(DECIDED), sealed_on(SEALED), 12, "after the first row"),
    BundleFault("approvals", "an approval that expired at the very time on record",
                "expires later", decided(approval_of(OWN, expires=utc(BUNDLED))),
                decided(approval_of(OWN, expires=utc(EXPIRES))), 12, "had expired"),
    BundleFault("anchors", "an anchor of another ledger", "of this one",
                anchored("0" * 64), anchored(sha256_hex(good().ledger().splitlines()[0])),
                3, "no entry of the ledger has the hash"),
    BundleFault("counts", "a verdict on one row less", "on all rows",
                judged(lambda v: v.update(rows=v["rows"] - 1)), GOOD, 3, "143 rows in the verdict"),
    BundleFault("integrity", "a verdict without one of the checks of rows", "with it",
                judged(lambda v: v["rules"].remove(entry(v, "integrity/missing"))), GOOD,
                3, "the verdict leaves out the check missing"),
    BundleFault("rules", "an estimate a ten-thousandth off", "as the rows give it",
                judged(lambda v: entry(v, "tail").update(estimate=entry(v, "tail")["estimate"]
                                                         * 1.0001)),
                GOOD, 3, "tail: estimate"),
    BundleFault("status", "INCONCLUSIVE, where all outcomes pass", "GO", judged(hold), GOOD,
                3, "INCONCLUSIVE, where the outcomes give GO"),
)  # fmt: skip

# Rows that are no evidence, under a verdict that says of the check which sees it that it passed.
ELSEWHERE = {
    "rows_present": "rows.jsonl has no lines",
    "plan_of_these_rows": "the check `plan`: the inputs name another plan",
}
"""Checks of rows that the verifier makes in another place, and how it puts them."""
PASSED = {fault.check: fault for fault in reversed(evidence.FAULTS)
          if fault.check not in (*ELSEWHERE, "readable")}  # fmt: skip
"""By check: the first fault planted for it."""


def waved_through(check: str) -> Make:
    """A bundle of the fault planted for the check, whose verdict says that the check passed."""
    fault = PASSED[check].fault
    rows = list(fault.rows)
    own = case(rows=rows, plan=fault.plan.model_dump(mode="json", by_alias=True))
    if check == "audit_of_these_rows":
        own = replace(own, audit=audit_of(own.rows[1:]))
    if check == "manifest":
        own = case(rows=rows[1:], change=lambda kept: [*kept, rows[0]],
                   plan=fault.plan.model_dump(mode="json", by_alias=True))  # fmt: skip

    def wave(document: Document) -> None:
        entry(document, f"integrity/{check}").update(outcome="pass")

    return lambda folder: forged(own, wave).write(folder).read_bytes()
