"""A sealed confirmation set of a few prompts in a folder, and what is needed to open it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.confirmation import Confirmed, confirm
from specdecode.governance.dsse import Envelope, sign_payload
from specdecode.governance.ledger import Ledger
from specdecode.governance.opened import History, read_history
from specdecode.governance.opening import Handed, open_once
from specdecode.governance.opening_request import Request
from specdecode.governance.signing import SigningKey
from specdecode.governance.timestamps import utc_now, utc_text
from specdecode.governance.vault import lock, read_vault
from specdecode.governance.vault_key import new_share, read_share
from specdecode.governance.vault_page import HELD, Custody
from specdecode.measurement.records import Record
from specdecode.measurement.spool import RowSpool
from tests.governance.keys import ADA, signers
from tests.measurement.factories import MANIFEST, record

ARMS = ("plain", "block")
CANDIDATE, OTHER_CANDIDATE = "c" * 64, "d" * 64
SEALED = {name: sha256_hex(name.encode()) for name in ("plan", "order", "code", "lock", "inputs")}
"""Digests of what is sealed beside the confirmation set."""


def prompts(count: int = 5) -> list[dict[str, Any]]:
    return [
        {
            "question_id": f"p{i}",
            "category": ("chat", "translate")[i % 2],
            "difficulty": "normal",
            "turns": [f"secret words number {i}"],
        }
        for i in range(count)
    ]


def statement(
    subjects: Mapping[str, str], at: str, anchor: str = "none", **fields: Any
) -> dict[str, Any]:
    """A seal of a plan, as JSON; `fields` replace its own."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": n, "digest": {"sha256": d}} for n, d in sorted(subjects.items())],
        "predicateType": "https://specdecode.dev/plan-seal/v1",
        "predicate": {
            "plan_sha256": subjects["plan"],
            "plan_name": "a plan",
            "at": at,
            "tree_clean": True,
            "confirmation_opened": False,
            "power": None,
            "power_wanted": None,
            "anchor": anchor,
        },
        **fields,
    }


@dataclass(frozen=True)
class Site:
    """Everything under one folder; built once by `build`, then only looked at."""

    folder: Path
    seal: Envelope

    @property
    def vault(self) -> Path:
        return self.folder / "vault"

    @property
    def key_file(self) -> Path:
        return self.folder / "holder.key"

    @property
    def ledger(self) -> Ledger:
        """A fresh object, as another process would have."""
        return Ledger(self.folder / "ledger.jsonl")

    @property
    def present(self) -> dict[str, str]:
        return {**SEALED, "candidate": CANDIDATE}

    @property
    def root(self) -> str:
        return read_vault(self.vault).manifest.merkle_root

    @property
    def history(self) -> History:
        count = read_vault(self.vault).manifest.count
        return read_history(self.ledger.entries(), self.root, count)

    def request(self, candidate: str = CANDIDATE, **fields: Any) -> Request:
        present = {**self.present, "candidate": candidate}
        request = Request(
            vault=self.vault,
            key_files=[self.key_file],
            seal=self.seal,
            signers=signers(),
            ledger=self.ledger,
            candidate_sha256=candidate,
            present=lambda: present,
        )
        return replace(request, **fields)

    def sealed_again(self, subjects: Mapping[str, str] | None = None, **fields: Any) -> Site:
        """The same set under another seal, which is put on record whatever it is."""
        return replace(self, seal=put_seal(self.folder, subjects, **fields))

    def spool(self) -> RowSpool:
        return RowSpool(self.folder / "spool", MANIFEST)

    def rows(self) -> list[Record]:
        with self.spool() as spool:
            return spool.records()

    def confirm(self, batch: int = 1, **request: Any) -> Confirmed:
        with open_once(self.request(**request)) as opening, self.spool() as spool:
            return confirm(opening, spool, run, lost, batch=batch)


def put_seal(
    folder: Path,
    subjects: Mapping[str, str] | None = None,
    *,
    key: SigningKey = ADA,
    payload: bytes | None = None,
    **fields: Any,
) -> Envelope:
    """Sign a seal and put it on record, without asking whether that makes sense."""
    if subjects is None:
        manifest = read_vault(folder / "vault").manifest
        subjects = {**SEALED, "confirmation": manifest.sha256}
    at = utc_now()
    content = payload or canonical_bytes(statement(subjects, utc_text(at), **fields))
    envelope = sign_payload(content, key)
    body = {
        "plan_sha256": subjects["plan"],
        "seal_sha256": envelope.sha256,
        "anchor": "none",
        "envelope": envelope.to_json(),
    }
    Ledger(folder / "ledger.jsonl").append("seal", body, at=at)
    return envelope


def build(folder: Path, count: int = 5, holders: int = 1, custody: Custody = HELD) -> Site:
    """Lock prompts and seal them."""
    keys = [folder / f"holder{number or ''}.key" for number in (0, 2, 3)][:holders]
    for key in keys:
        new_share(key)
    lock(prompts(count), folder / "vault", [read_share(key) for key in keys], custody=custody)
    return Site(folder, put_seal(folder))


def site(folder: Path) -> Site:
    """The one that `build` made there, in another process."""
    from specdecode.governance.dsse import parse_envelope

    return Site(folder, parse_envelope((folder / "seal.json").read_bytes()))


def run(block: Sequence[Handed]) -> Iterator[Record]:
    """One row an arm; its time is drawn afresh each time, as a clock's is."""
    for handed in block:
        for arm in ARMS:
            drawn = 0.5 + int.from_bytes(os.urandom(6), "big") / 2**48
            yield record(handed.prompt["question_id"], arm, e2e_s=drawn)


def lost(handed: Handed, why: str) -> Iterable[Record]:
    nothing = dict.fromkeys(("output_tokens", "output_token_ids", "e2e_s", "ttft_s", "tpot_s"))
    for arm in ARMS:
        yield record(handed.prompt["question_id"], arm, error=why, **nothing)
