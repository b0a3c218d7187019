"""A repository with a sealed plan and a locked confirmation set."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from specdecode.cli.confirm_inputs import params_sha256
from specdecode.governance import PLAN_ENTRY, load_plan, plan_sha256, sealed_sha256
from specdecode.governance.ledger import Ledger
from specdecode.measurement.records import read_records
from specdecode.models.fingerprint import fingerprint_folder
from tests.cli.conftest import WORDS
from tests.governance.plans import ARMS, OFFLINE, small_plan

ROOT = Path(__file__).parents[3]
COUNT = 4
PARAMS = {
    "profile": "full",
    "target": {"dtype": "float32"},
    "decoding": {
        "num_speculative_tokens": 2,
        "device": "cpu",
        "threads": 1,
        "max_tokens": 6,
        "sampling": [
            {"name": "greedy", "temperature": 0.0, "ignore_eos": True},
            {"name": "sampled", "temperature": 1.0, "ignore_eos": True},
        ],
    },
    "seeds": {"sampling": 11},
    "profiles": {"full": {}},
}


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@dataclass(frozen=True)
class Repository:
    """Everything a confirmation takes, sealed and committed; commands run from its root."""

    root: Path

    @property
    def options(self):
        return (
            *("--plan", "plans/plan.yaml", "--vault", "vault", "--key", "../holder.key"),
            *("--out", "out", "--manifest", "reports/manifest.json", "--json"),
        )

    @property
    def ledger(self):
        return Ledger(self.root / "plans/ledger.jsonl")

    def rows(self):
        return read_records(self.root / "out/rows.parquet")

    def write_manifest(self, **changes):
        entries = {
            f"target.{part}": digest
            for part, digest in fingerprint_folder(self.root / "models/target").to_json().items()
        }
        entries["params"] = params_sha256(yaml.safe_load((self.root / "params.yaml").read_text()))
        entries[PLAN_ENTRY] = plan_sha256(load_plan(self.root / "plans/plan.yaml"))
        entries |= changes
        document = {"entries": entries, "manifest_sha256": sealed_sha256(entries)}
        (self.root / "reports/manifest.json").write_text(json.dumps(document))


def write_plan(path, **fields):
    arms = [arm | ({"draft": "early-exit:1"} if arm["draft"] else {}) for arm in ARMS]
    plan = small_plan(
        arms=arms,
        stages=[OFFLINE, OFFLINE | {"name": "confirmation"}],
        prompts_expected={"full": COUNT},
        approvals={
            "required_roles": [],
            "distinct_persons": True,
            "expires_days": 30,
            "signers_file": "plans/signers.yaml",
        },
        **fields,
    )
    path.write_text(yaml.safe_dump(plan.model_dump(mode="json", by_alias=True)))


def prompt_lines():
    for i in range(COUNT):
        text = " ".join(WORDS[(i * 3 + k) % len(WORDS)] for k in range(5))
        yield json.dumps({"question_id": f"q{i}", "category": "chat", "turns": [text]})


def opened(repository):
    return (repository.root / "vault/OPENED").exists()


def edit(repository, name, old, new):
    path = repository.root / name
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))
