"""A release with nothing made up but the traffic: plan, seal, ledger, spool, registry on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from pipelines.flows.options import AuditOptions, RegistryOptions, ReleaseOptions
from specdecode.governance import PLAN_ENTRY, Plan, parse_plan, plan_sha256, sealed_sha256
from specdecode.governance.anchor import NoAnchor
from specdecode.governance.approvals import sign_approval
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.ledger import Ledger
from specdecode.governance.sealing import seal_plan
from specdecode.governance.timestamps import utc_now
from specdecode.measurement.records import Record
from specdecode.rollout.spool import Spool
from specdecode.rollout.state import RolloutState
from tests.governance.bundles import signers_text
from tests.governance.keys import ADA, GRACE, LINUS
from tests.governance.live import streams
from tests.governance.live.streams import START, Truth
from tests.pipelines.fake_router import TOKEN, FakeRouter
from tests.pipelines.releases import perfect, release_plan

LONG_AGO = timedelta(days=2000)
"""Rows and seal lie so far back that the clock of no machine is before them."""
QUALITY = b'{"success": true}\n'


@dataclass
class ReleaseProject:
    """The files of a release, and a router that records made-up requests into a real spool."""

    folder: Path
    plan: Plan
    manifest_sha256: str
    router: FakeRouter
    spool: Spool
    truths: dict[str, Truth] = field(default_factory=dict)
    registry: RegistryOptions | None = None
    audit: AuditOptions | None = None

    def options(self, url: str, **changes: Any) -> ReleaseOptions:
        """For flows, with the router at that address."""
        given = {
            "router": url,
            "plan": self.folder / "plan.yaml",
            "manifest": self.folder / "manifest.json",
            "spool": self.folder / "spool",
            "records": self.folder / "releases",
            "token_file": self.folder / "token",
            "ledger": self.folder / "ledger.jsonl",
            "gate_file": self.folder / "gate.json",
            "data_quality": self.folder / "validation.json",
            "dvc_lock": self.folder / "dvc.lock",
            "audit": self.audit,
            "registry": self.registry,
        }
        return ReleaseOptions.model_validate(given | changes)

    def serve(self, state: RolloutState) -> None:
        """Requests of a state, into the spool."""
        if state.stage is None:
            return
        name = str(state.stage) if state.step is None else f"{state.stage} {state.step}"
        truth = self.truths.get(name, perfect)
        for record in requests(name, truth, self.manifest_sha256):
            self.spool.append(record)
        self.spool.flush()

    def sign(self, verdict_sha256: str, *who: str, decision: str = "approve") -> list[bytes]:
        """Decisions on a verdict, by name: Ada owns, Grace reviews, Linus sealed the plan."""
        keys = {"Ada": (ADA, "owner"), "Grace": (GRACE, "reviewer"), "Linus": (LINUS, "operator")}
        return [
            sign_approval(
                verdict_sha256,
                decision,  # type: ignore[arg-type]
                keys[name][1],
                keys[name][0],
                at=utc_now(),
                expires_days=14,
                reason=None if decision == "approve" else "no",
            ).to_bytes()
            for name in who
        ]


@cache
def requests(name: str, truth: Truth, manifest: str) -> tuple[Record, ...]:
    """About fifty requests to the candidate in a stage or step; later steps come later."""
    stage, _, step = name.partition(" ")
    if stage == "shadow":
        rows = streams.shadow(50, truth, perfect)
    elif stage == "watch":
        rows = [row | {"request_id": f"w{i}"} for i, row in enumerate(streams.watch(100, truth))]
    else:
        share = float(step)
        rows = streams.canary(int(50 / share), truth, perfect, seed=1, share=share,
                              first=int(20_000 * share))  # fmt: skip
    return tuple(
        Record.model_validate(
            row | {"manifest_sha256": manifest, "started_at": row["started_at"] - LONG_AGO}
        )
        for row in rows
    )


def release_project(
    folder: Path, *, roles: tuple[str, ...] = ("owner", "reviewer")
) -> ReleaseProject:
    """A sealed release whose plan asks for these signatures."""
    approvals = {
        "required_roles": list(roles),
        "distinct_persons": True,
        "expires_days": 14,
        "signers_file": str(folder / "signers.yaml"),
    }
    own = release_plan(approvals=approvals)
    text = yaml.safe_dump(own.model_dump(mode="json", by_alias=True), sort_keys=False)
    plan = parse_plan(yaml.safe_load(text))
    (folder / "plan.yaml").write_text(text, encoding="utf-8")
    (folder / "signers.yaml").write_bytes(signers_text())
    (folder / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    (folder / "validation.json").write_bytes(QUALITY)
    (folder / "dvc.lock").write_text("schema: '2.0'\n", encoding="utf-8")
    entries = {
        "lock": "c" * 64,
        "plan": sha256_hex(text.encode()),
        "prompts.validation": sha256_hex(QUALITY),
        PLAN_ENTRY: plan_sha256(plan),
    }
    manifest = sealed_sha256(entries)
    document = {
        "schema": "specdecode.manifest/1",
        "entries": entries,
        "manifest_sha256": manifest,
    }
    (folder / "manifest.json").write_text(json.dumps(document), encoding="utf-8")
    seal = seal_plan(
        plan,
        {"plans/signers.yaml": sha256_hex((folder / "signers.yaml").read_bytes())},
        LINUS,
        Ledger(folder / "ledger.jsonl"),
        NoAnchor(),
        at=_before(START - LONG_AGO),
        tree_clean=True,
        confirmation_opened=False,
        power=None,
        power_wanted=None,
    )
    (folder / "plan.seal.json").write_bytes(seal.to_bytes())
    router = FakeRouter()
    made = ReleaseProject(folder, plan, manifest, router, Spool(folder / "spool"))
    router.on_set = made.serve
    return made


def _before(first: datetime) -> datetime:
    return first - timedelta(days=1)
