"""The papers of one demonstration: its plan, sealed, the people who sign, and what is released.

A release in earnest has them long before: a plan that people wrote, keys that only they hold, a
manifest of the evaluation. Here they are made when the demonstration starts, in a small repository
of its own, so that sealing, approvals and the bundle of evidence are the real ones and prove
nothing about anything else. Two persons are made up: one who proposes and seals, one who approves.

    papers/            a git repository: plan, signers, trace, what the trace's check found
    papers/plan.seal.json, plan.anchor.json, ledger.jsonl
    manifest.json      what is under judgement, hashed
    keys/              private keys of the two, readable by their owner only
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from pipelines.demo.engine import DRAFT_TOKENS, RULE
from pipelines.demo.model import Models
from pipelines.demo.traffic import read_trace
from specdecode.durable import written_whole
from specdecode.governance import PLAN_ENTRY, Plan, load_plan, plan_sha256, sealed_sha256
from specdecode.governance.anchor import anchor_named
from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.git import git
from specdecode.governance.ledger import Ledger
from specdecode.governance.power_ladder import climb
from specdecode.governance.sealing import seal_plan, verify_seal
from specdecode.governance.signers import load_signers
from specdecode.governance.signing import SigningKey, encode_base64
from specdecode.governance.subjects import file_sha256, present_subjects, tree_is_clean
from specdecode.governance.timestamps import utc_now
from specdecode.governance.verdict import Status
from specdecode.models.fingerprint import fingerprint_folder

TEMPLATE = Path(__file__).with_name("plan.yaml")
SIGNERS_LINE = "signers_file: signers.yaml"
PROPOSER, APPROVER = "Proposer of the demonstration", "Approver of the demonstration"
_ROLES = {PROPOSER: "owner", APPROVER: "release manager"}
_RUNS, _SEED = 50, 0
_LEDGER = "ledger.jsonl"


@dataclass(frozen=True)
class Papers:
    """Where everything is.

    Attributes:
        plan: the sealed plan; its seal and anchor are beside it.
        signers: whose signatures count.
        ledger: has the seal, and gets the approvals.
        manifest: of what is released.
        checked: what the check of the trace found, as the manifest names it.
        trace: what is replayed.
        approver: private key of the person who may approve.
        manifest_sha256: what rows carry.
    """

    plan: Path
    signers: Path
    ledger: Path
    manifest: Path
    checked: Path
    trace: Path
    approver: Path
    manifest_sha256: str


def papers_in(folder: Path) -> Papers:
    """The papers that `make_papers` has made there."""
    own = folder / "papers"
    manifest = folder / "manifest.json"
    return Papers(
        plan=own / "plan.yaml",
        signers=own / "signers.yaml",
        ledger=own / _LEDGER,
        manifest=manifest,
        checked=own / "checked.json",
        trace=own / "traffic.jsonl",
        approver=folder / "keys/approver.pem",
        manifest_sha256=str(json.loads(manifest.read_bytes())["manifest_sha256"]),
    )


def make_papers(folder: Path, models: Models, trace: Path, run: str, root: Path) -> Papers:
    """Write the papers of one run, and seal its plan.

    Args:
        folder: of the run; has none yet.
        models: what both servers load.
        trace: what will be replayed.
        run: name of the run; another name is another release.
        root: folder that flows run in, which the plan's path of the signers starts from.

    Raises:
        ConfigError: the plan gives a GO too rarely to be sealed, or git is not to be had.
        PromptFileError: the trace is none.
    """
    own, keys = folder / "papers", folder / "keys"
    own.mkdir()
    signers = own / "signers.yaml"
    sealer = _people(signers, keys)
    named = signers.relative_to(root) if signers.is_relative_to(root) else signers
    text = TEMPLATE.read_text("utf-8").replace(
        SIGNERS_LINE, f"signers_file: {json.dumps(str(named))}"
    )
    (own / "plan.yaml").write_text(text, "utf-8")
    asked = read_trace(trace)
    shutil.copyfile(trace, own / "traffic.jsonl")
    checked = {"schema": "specdecode.demo.trace/1", "requests": len(asked), "passed": True}
    (own / "checked.json").write_bytes(canonical_bytes(checked) + b"\n")
    _commit(own)
    plan = load_plan(own / "plan.yaml")
    seal_sha256 = _seal(own, plan, signers, sealer)
    entries = _entries(own, plan, models, run) | {"plan.seal": seal_sha256}
    manifest = {
        "schema": "specdecode.manifest/1",
        "entries": entries,
        "manifest_sha256": sealed_sha256(entries),
    }
    with written_whole(folder / "manifest.json") as file:
        file.write(json.dumps(manifest, indent=2, sort_keys=True).encode() + b"\n")
    return papers_in(folder)


def _people(signers: Path, keys: Path) -> SigningKey:
    """Makes both persons' keys and the file that names them; returns the proposer's key."""
    made = {name: SigningKey.generate() for name in _ROLES}
    made[PROPOSER].save(keys / "proposer.pem")
    made[APPROVER].save(keys / "approver.pem")
    lines = [
        f'- name: {name}\n  role: {_ROLES[name]}\n  public_key: "{encode_base64(key.public_key)}"\n'
        for name, key in made.items()
    ]
    signers.write_text("".join(lines), "utf-8")
    return made[PROPOSER]


def _commit(own: Path) -> None:
    """A seal is of committed files; nobody's git settings have a say in this repository."""
    git(own, "init", "--quiet", "--initial-branch=main")
    git(own, "add", "--all")
    git(
        own,
        *("-c", "user.name=demonstration", "-c", "user.email=demonstration@localhost"),
        *("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"),
        *("commit", "--quiet", "--message=The demonstration's papers"),
    )


def _seal(own: Path, plan: Plan, signers: Path, sealer: SigningKey) -> str:
    """Puts the seal beside the plan and into the ledger; returns its SHA-256."""
    ledger, anchor = Ledger(own / _LEDGER), anchor_named("none", own)
    subjects = present_subjects(own, ["tree:.", signers.name], [_LEDGER])
    found = climb(plan, runs=_RUNS, seed=_SEED)
    envelope = seal_plan(
        plan,
        subjects,
        sealer,
        ledger,
        anchor,
        at=utc_now(),
        tree_clean=tree_is_clean(own, [_LEDGER]),
        confirmation_opened=False,
        power=found.weakest.chances[Status.GO].rate,
        power_wanted=plan.power.wanted,
        power_basis=f"simulated: {_RUNS} runs, seed {_SEED}, of each stage",
    )
    seal = verify_seal(envelope, plan, subjects, load_signers(signers), ledger)
    evidence = anchor.attest(seal.entry.sha256).model_dump(mode="json")
    for name, content in (
        ("plan.seal.json", envelope.to_bytes()),
        ("plan.anchor.json", canonical_bytes(evidence) + b"\n"),
    ):
        with written_whole(own / name) as file:
            file.write(content)
    return envelope.sha256


def _entries(own: Path, plan: Plan, models: Models, run: str) -> dict[str, str]:
    """SHA-256 by name of all that is under judgement."""
    entries = {
        f"{which}.{part}": digest
        for which, folder in (("target", models.target), ("draft", models.draft))
        for part, digest in fingerprint_folder(folder).to_json().items()
    }
    settings = {"verification": RULE, "num_speculative_tokens": DRAFT_TOKENS}
    return entries | {
        PLAN_ENTRY: plan_sha256(plan),
        "plan": file_sha256(own / "plan.yaml"),
        "prompts.validation": file_sha256(own / "checked.json"),
        "traffic": file_sha256(own / "traffic.jsonl"),
        "candidate.settings": sha256_hex(canonical_bytes(settings)),
        "run": sha256_hex(run.encode()),
    }
