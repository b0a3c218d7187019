"""`specdecode bundle` and `specdecode verify`: from sealed evidence to a stranger's check of it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from specdecode.governance.canonical import sha256_hex
from specdecode.governance.verifier import PROGRAM
from specdecode.measurement.records import write_parquet
from tests.governance.bundles import QUALITY_CHECKS, case
from tests.governance.plans import FASTER
from tests.governance.repositories import commit, git, repository
from tests.measurement.factories import run

PLAN, SIGNERS, LOCK = "plans/default.yaml", "plans/signers.yaml", "numpy==2\n"
OUT = "reports/evidence/block.zip"
ASKED = {
    "required_roles": ["reviewer"],
    "distinct_persons": True,
    "expires_days": 30,
    "signers_file": SIGNERS,
}


@pytest.fixture
def root(tmp_path, monkeypatch, specdecode):
    """What an evaluation leaves behind, in a repository, with keys and no seal yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    then = datetime.now(UTC) - timedelta(hours=1)  # later than the seal, earlier than approvals
    rows = [r.model_copy(update={"started_at": then}) for r in run(24)]
    made = case(FASTER, rows=rows, approvals=ASKED, lock=sha256_hex(LOCK.encode()))
    keys = [specdecode("keys", "new", name, "--role", role).out
            for name, role in (("Ada", "owner"), ("Grace", "reviewer"))]  # fmt: skip
    files = {
        PLAN: made.plan_text,
        SIGNERS: "".join(text[text.index("- name") :] for text in keys),
        "requirements.lock": LOCK,
        "code/a.py": "a = 1\n",
        "reports/audit.json": json.dumps(made.audit),
        "reports/manifest.json": json.dumps(made.manifest),
        "reports/verdict.json": json.dumps(made.verdict.to_json(), indent=2),
        "data/validation.json": QUALITY_CHECKS.decode(),
        "dvc.lock": "schema: '2.0'\n",
        "cards/target.md": "# Target\n",
    }
    root = repository(tmp_path / "repository", monkeypatch, files)
    monkeypatch.chdir(root)
    write_parquet(made.rows, "data/rows.parquet")
    commit(root)
    return root


@pytest.fixture
def sealed(specdecode, root):
    """The same, after Ada sealed the plan."""
    seal(specdecode)
    commit(root)
    return root


def seal(specdecode, *more):
    """Two hours ago, before the rows."""
    clock = "specdecode.governance.timestamps.utc_now"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, lambda: datetime.now(UTC) - timedelta(hours=2))
        done = specdecode("plan", "seal", PLAN, "--key", "Ada", "--power", "0.9", "--code", "code",
                          *more)  # fmt: skip
    assert done.code == 0, done.err


def approve(specdecode, decision="approve", *more):
    done = specdecode("approve", "reports/verdict.json", "--plan", PLAN, "--key", "Grace",
                      "--decision", decision, *more)  # fmt: skip
    assert done.code == 0, done.err


def test_sealed_and_approved_evidence_verifies_on_a_bare_machine(specdecode, sealed, tmp_path):
    approve(specdecode)

    done = specdecode("bundle", OUT, "--card", "cards/target.md", "--key", "Ada", "--json")

    assert done.code == 0, done.out
    assert done.document["wrong"] == []
    assert done.document["sha256"] == sha256_hex(Path(OUT).read_bytes())
    ours = specdecode("verify", OUT, "--json")
    theirs = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM, sealed / OUT, "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={},
    )  # fmt: skip
    assert (ours.code, theirs.returncode) == (0, 0)
    assert ours.document["status"] == json.loads(theirs.stdout)["status"] == "GO"
    assert ours.document["checks"] == json.loads(theirs.stdout)["checks"]


def test_the_same_evidence_gives_the_same_bytes(specdecode, sealed):
    approve(specdecode)

    digests = {specdecode("bundle", name, "--json").document["sha256"] for name in ("a", "b")}

    assert len(digests) == 1


def test_a_go_that_nobody_approved_is_written_and_not_in_order(specdecode, sealed):
    done = specdecode("bundle", OUT)

    assert done.code == 12
    assert "an approval as reviewer by another person is missing" in done.out
    assert specdecode("verify", OUT).code == 12


def test_a_rejection_goes_along(specdecode, sealed):
    approve(specdecode, "reject", "--reason", "too slow for us")

    assert specdecode("bundle", OUT).code == 12
    assert "too slow for us" in specdecode("verify", OUT).out


def test_evidence_that_nobody_sealed_has_to_be_asked_for(specdecode, root):
    assert specdecode("bundle", OUT).code == 12
    assert specdecode("bundle", OUT, "--unsealed").code == 0
    assert specdecode("verify", OUT).code == 12
    done = specdecode("verify", OUT, "--unsealed")
    assert done.code == 0
    assert "waived" in done.out


def test_keys_and_heads_from_outside_are_demanded(specdecode, sealed):
    approve(specdecode)
    specdecode("bundle", OUT)
    keys = {name: specdecode("keys", "show", name, "--json").document["signer"]["public_key"]
            for name in ("Ada", "Grace")}  # fmt: skip
    head = specdecode("ledger", "verify", "--json").document["head"]
    both = [word for key in keys.values() for word in ("--signer", key)]

    assert specdecode("verify", OUT, *both, "--head", head).code == 0
    assert specdecode("verify", OUT, "--signer", keys["Grace"]).code == 3
    assert specdecode("verify", OUT, "--head", "0" * 64).code == 3


@pytest.mark.parametrize(
    ("slip", "advice"),
    [
        (("--signer", "e56c0fcf3eb43bcb"), "and no key id"),
        (("--signer", "Ada"), "public_key:"),
        (("--head", "abc"), "64 hexadecimal digits"),
    ],
)
def test_a_slip_of_the_hand_is_wrong_usage_and_not_tampering(specdecode, sealed, slip, advice):
    specdecode("bundle", OUT)
    done = specdecode("verify", OUT, *slip)
    assert done.code == 2
    assert advice in done.err


def test_texts_can_be_withheld_and_rows_shown(specdecode, sealed, tmp_path):
    approve(specdecode)
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(32)))
    done = specdecode("bundle", OUT, "--withhold", secret, "--show", "p0001/greedy/block")

    assert done.code == 0, done.out
    assert Path(OUT).read_bytes().count(b"five tokens") == 1
    assert specdecode("verify", OUT).code == 0
    assert specdecode("bundle", OUT, "--show", "p0001/greedy/block").code == 2


def test_a_tampered_bundle_says_so_and_why(specdecode, sealed):
    approve(specdecode)
    specdecode("bundle", OUT)
    archive = bytearray(Path(OUT).read_bytes())
    archive[archive.index(b"five tokens")] ^= 1
    Path(OUT).write_bytes(archive)

    done = specdecode("verify", OUT)

    assert done.code == 3
    assert "rows.jsonl cannot be read" in done.out
    assert done.out.splitlines()[-1] == "TAMPERED"


def test_a_tag_that_anchors_the_head_is_named(specdecode, root):
    seal(specdecode, "--anchor", "git-tag")
    commit(root)
    approve(specdecode)

    assert specdecode("bundle", OUT).code == 0
    assert "git-tag" in specdecode("verify", OUT).out
    assert git(root, "tag", "--list")


def test_what_is_not_there_is_wrong_usage(specdecode, root):
    assert specdecode("verify", "none.zip").code == 2
    assert "specdecode bundle" in specdecode("verify", "none.zip").err
    assert specdecode("bundle", OUT, "--rows", "none.parquet").code == 2
    assert specdecode("bundle", OUT, "--card", "none.md").code == 2
    assert specdecode("bundle", OUT, "--at", "yesterday").code == 2
    assert not Path(OUT).exists()
