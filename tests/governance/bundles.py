"""Evidence bundles for tests: small, with every kind of rule, signed, and easy to attack."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from specdecode.governance import (
    PLAN_ENTRY,
    Plan,
    Verdict,
    decide,
    parse_plan,
    plan_sha256,
    sealed_sha256,
)
from specdecode.governance.bundle import manifest_of, write_bundle
from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.chain import EMPTY_HEAD
from specdecode.governance.dsse import Envelope, sign_payload
from specdecode.governance.signing import SigningKey
from specdecode.governance.statements import Approval, PlanSeal, write_statement
from specdecode.governance.verifier import pack
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import Record, to_table
from tests.governance.keys import ADA, ENTRIES, GRACE
from tests.governance.plans import FASTER, WHY, small_plan
from tests.measurement.factories import MANIFEST, START, run

SEALED = START - timedelta(days=2)
DECIDED = START + timedelta(days=1)
BUNDLED = START + timedelta(days=2)
EXPIRES = START + timedelta(days=30)
QUALITY_CHECKS = b'{"success": true}\n'

_SHARED = {"arm": "block", "level": 0.95, "n_min": 20, "why": WHY}
RULES: list[dict[str, Any]] = [
    FASTER,
    _SHARED | {"kind": "quality_non_inferiority", "name": "quality", "role": "secondary",
               "margin": 0.3},
    _SHARED | {"kind": "tail_latency", "name": "tail", "role": "guardrail", "metric": "tpot_s",
               "quantile": 0.95, "threshold": 1.1},
    _SHARED | {"kind": "tail_latency", "name": "first", "role": "secondary", "metric": "ttft_s",
               "quantile": 0.9, "threshold": 1.1},
    _SHARED | {"kind": "acceptance_length", "name": "acceptance", "role": "guardrail",
               "threshold": 2.0},
    _SHARED | {"kind": "token_amplification", "name": "amplification", "role": "guardrail",
               "threshold": 2.5},
    _SHARED | {"kind": "efficiency_gain", "name": "gain", "role": "secondary", "versus": "token",
               "threshold": 1.0, "sampling": "sampled"},
    _SHARED | {"kind": "strata", "name": "everywhere", "role": "guardrail", "n_min": 5,
               "measure": "speed_ratio", "threshold": 1.0, "insufficient": "report",
               "strata": {"sampling": ["greedy", "sampled"], "difficulty": ["normal", "hard"],
                          "language": ["en", "zh"]}},
    _SHARED | {"kind": "strata", "name": "quality-everywhere", "role": "secondary", "n_min": 5,
               "measure": "quality_difference", "threshold": -0.5, "insufficient": "report",
               "strata": {"difficulty": ["normal", "adversarial"], "category": ["chat", "none"]}},
]  # fmt: skip


def utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def signers_text(*entries: dict[str, str]) -> bytes:
    """A signers file of these, or of everybody."""
    return yaml.safe_dump(list(entries) or ENTRIES).encode("utf-8")


def seal_of(
    plan_digest: str,
    by: SigningKey = ADA,
    signers: bytes | None = None,
    *,
    lock: str | None = None,
    at: datetime = SEALED,
    confirmation: str | None = None,
) -> Envelope:
    """A seal of the plan, the signers file (everybody's), lock file and prompts where given."""
    predicate = PlanSeal(plan_sha256=plan_digest, plan_name="small", at=utc(at),
                         tree_clean=True, confirmation_opened=False, power=None,
                         power_wanted=None, power_basis=None, anchor="none")  # fmt: skip
    subjects = {"plans/signers.yaml": sha256_hex(signers or signers_text())}
    subjects |= {} if lock is None else {"requirements.lock": lock}
    subjects |= {} if confirmation is None else {"confirmation": confirmation}
    return sign_payload(write_statement(predicate, subjects), by)


def approval_of(verdict_digest: str, by: SigningKey = GRACE, **changes: Any) -> Envelope:
    """An approval that counts, but for the changes."""
    fields = {"decision": "approve", "role": "reviewer", "at": utc(DECIDED),
              "expires": utc(EXPIRES), "reason": None} | changes  # fmt: skip
    predicate = Approval.model_construct(verdict_sha256=verdict_digest, **fields)
    return sign_payload(write_statement(predicate), by)


Line = tuple[str, datetime, Mapping[str, Any]]


def seal_line(seal: Envelope, plan_digest: str, at: datetime = SEALED) -> Line:
    """The seal as the ledger has it."""
    body = {"plan_sha256": plan_digest, "seal_sha256": seal.sha256, "anchor": "none"}
    return "seal", at, body | {"envelope": seal.to_json()}


def decision_line(
    given: Envelope, verdict_digest: str, kind: str = "approval", at: datetime = DECIDED
) -> Line:
    """An approval or override as the ledger has it."""
    body = {"verdict_sha256": verdict_digest, "approval_sha256": given.sha256}
    return kind, at, body | {"envelope": given.to_json()}


def chained(*entries: Line) -> bytes:
    """A ledger of these entries (kind, time, body), whatever their times are."""
    lines, previous = [], EMPTY_HEAD
    for sequence, (kind, at, body) in enumerate(entries):
        line = canonical_bytes(
            {"sequence": sequence, "previous": previous, "kind": kind, "at": utc(at), "body": body}
        )
        lines.append(line)
        previous = sha256_hex(line)
    return b"".join(line + b"\n" for line in lines)


def report(word: str = "lossless", *, tokens: int = 3000, log_e: float = -1.5) -> dict[str, Any]:
    """The audit's report on one arm, as `specdecode.audit` writes it."""
    crossed = log_e >= math.log(100)
    return {
        "verdict": word,
        "alpha": 0.01,
        "log_e_value": log_e,
        "max_log_e_value": max(log_e, 0.0),
        "tokens_read": tokens,
        "min_tokens": 2500,
        "first_evidence": {"kind": "sampled", "tokens_read": tokens} if crossed else None,
        "sampled": {"verdict": word, "tokens": tokens, "impossible": 0},
        "greedy": {"verdict": "lossless", "failures": 0, "tokens": 3000, "min_tokens": 459},
        "rows": {"unjudged": []},
    }


def audit_of(records: Iterable[Record], **reports: dict[str, Any]) -> dict[str, Any]:
    """The audit document of these rows; `reports` replace single arms'."""
    arms = {arm: report() for arm in ("plain", "token", "block")} | reports
    return {"schema": "specdecode.audit/1", "alpha": 0.01, "arms": arms,
            "rows_sha256": rows_sha256(records)}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What one bundle is made of."""

    plan: Plan
    plan_text: str
    manifest: dict[str, Any]
    rows: list[Record]
    audit: dict[str, Any]
    verdict: Verdict

    @property
    def verdict_sha256(self) -> str:
        return sha256_hex(self.verdict.to_bytes())

    @property
    def seal(self) -> Envelope:
        return seal_of(plan_sha256(self.plan))

    @property
    def later(self) -> timedelta:
        """By how much everything after the rows is later than usual, where they took longer."""
        last = max((row.started_at for row in self.rows if row.started_at), default=DECIDED)
        return max(last - DECIDED, timedelta(0))

    @property
    def approval(self) -> Envelope:
        at, expires = utc(DECIDED + self.later), utc(EXPIRES + self.later)
        return approval_of(self.verdict_sha256, at=at, expires=expires)

    def ledger(
        self, *, seal: Envelope | None = None, decisions: Sequence[Line] | None = None
    ) -> bytes:
        """Seal, opening, verdict and decisions, in this order."""
        digest, own, at = plan_sha256(self.plan), self.verdict_sha256, DECIDED + self.later
        return chained(
            seal_line(seal or self.seal, digest),
            ("opened", START, {"plan_sha256": digest}),
            ("verdict", at, {"plan_sha256": digest, "verdict_sha256": own}),
            *([decision_line(self.approval, own, at=at)] if decisions is None else decisions),
        )

    def write(self, folder: Path, name: str = "bundle.zip", **changes: Any) -> Path:
        """The bundle; `changes` replace arguments of `write_bundle`."""
        (folder / "plan.yaml").write_text(self.plan_text, encoding="utf-8")
        (folder / "signers.yaml").write_bytes(changes.pop("signers_text", signers_text()))
        arguments: dict[str, Any] = {
            "at": BUNDLED + self.later,
            "plan_file": folder / "plan.yaml",
            "verdict": self.verdict.to_bytes(),
            "rows": to_table(self.rows),
            "audit": self.audit,
            "manifest": self.manifest,
            "data_quality": QUALITY_CHECKS,
            "dvc_lock": b"schema: '2.0'\n",
            "seal": self.seal,
            "signers": folder / "signers.yaml",
            "ledger": self.ledger(),
            "approvals": [self.approval],
            "cards": {"target.md": b"# Target\n", "draft.md": b"# Draft\n"},
        }
        write_bundle(folder / name, **(arguments | changes))
        return folder / name


def case(
    *rules: dict[str, Any],
    prompts: int = 24,
    rows: list[Record] | None = None,
    change: Callable[[list[Record]], list[Record]] = lambda records: records,
    reports: Mapping[str, dict[str, Any]] | None = None,
    stage: str = "offline",
    plan: Mapping[str, Any] | None = None,
    lock: str = "c" * 64,
    **fields: Any,
) -> Case:
    """A case under a plan of `rules` (by default one of every kind) and fields.

    Args:
        rules: of the plan, beside losslessness and error rate.
        prompts: how many, where no rows are given.
        rows: measured under `MANIFEST`; the case's own manifest takes its place.
        change: called with the rows, returns those there are.
        reports: the audit's, by arm, where it does not clear the arm.
        stage: of the plan, by whose rules the rows are judged.
        plan: document of the plan, in place of one made of rules and fields.
        lock: SHA-256 of the environment's lock file.
        fields: of the plan.
    """
    own = small_plan(*(rules or RULES), **fields) if plan is None else parse_plan(plan)
    text = yaml.safe_dump(own.model_dump(mode="json", by_alias=True), sort_keys=False)
    entries = {
        "lock": lock,
        "plan": sha256_hex(text.encode("utf-8")),
        "prompts.validation": sha256_hex(QUALITY_CHECKS),
        PLAN_ENTRY: plan_sha256(own),
    }
    seal = sealed_sha256(entries)
    manifest = {"schema": "specdecode.manifest/1", "entries": entries, "manifest_sha256": seal}
    records = change(
        [
            r.model_copy(update={"manifest_sha256": seal}) if r.manifest_sha256 == MANIFEST else r
            for r in (run(prompts) if rows is None else rows)
        ]
    )
    audit = audit_of(records, **(reports or {}))
    return Case(own, text, manifest, records, audit,
                decide(own.at(stage), to_table(records), audit, manifest))  # fmt: skip


@cache
def good() -> Case:
    """One that leads to GO."""
    return case()


def repacked(files: Mapping[str, bytes]) -> bytes:
    """The archive of these files, its MANIFEST.json made to fit: an attacker without a key."""
    return pack(dict(files) | {"MANIFEST.json": manifest_of(files)})


def edited(content: bytes, change: Callable[[Any], Any]) -> bytes:
    """A JSON file with its document changed in place (or replaced)."""
    document = json.loads(content)
    changed = change(document)
    return json.dumps(document if changed is None else changed).encode("utf-8")
