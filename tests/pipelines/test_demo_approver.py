"""The program that signs for a person: real signatures, of a GO under this plan, each once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.demo.approver import sign, waiting
from pipelines.demo.model import make_models
from pipelines.demo.papers import APPROVER, make_papers
from pipelines.demo.traffic import TRACE
from specdecode.governance import load_plan, plan_sha256
from specdecode.governance.approvals import check_approvals, decisions_on
from specdecode.governance.ledger import Ledger
from specdecode.governance.signers import load_signers
from specdecode.governance.signing import SigningKey
from specdecode.governance.subjects import file_sha256
from specdecode.governance.timestamps import utc_now


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    (root / "run").mkdir()
    return make_papers(root / "run", make_models(root / "models"), TRACE, "run", root)


@pytest.fixture
def records(papers, monkeypatch, tmp_path) -> Path:
    monkeypatch.chdir(papers.manifest.parents[1])  # where flows run
    folder = tmp_path / "records"
    (folder / "release-1").mkdir(parents=True)
    return folder


def verdict(records: Path, name: str, plan: str, status: str = "GO") -> Path:
    path = records / f"release-1/{name}.verdict.json"
    path.write_text(json.dumps({"status": status, "plan_sha256": plan, "name": name}))
    return path


def test_only_a_go_without_a_signature_waits(papers, records):
    key = SigningKey.load(papers.approver)
    go = verdict(records, "shadow", "p")
    verdict(records, "canary", "p", "INCONCLUSIVE")
    done = verdict(records, "before", "p")
    done.with_suffix(f".{key.key_id}.approval.json").write_text("{}")

    assert waiting(records, key) == [go]


def test_it_signs_as_a_person_would_and_the_signature_counts(papers, records):
    plan, signers = load_plan(papers.plan), load_signers(papers.signers)
    go = verdict(records, "shadow", plan_sha256(plan))

    assert sign(papers, go)

    assert waiting(records, SigningKey.load(papers.approver)) == []
    digest = file_sha256(go)
    given = decisions_on(digest, Ledger(papers.ledger).entries())
    assert [signers.get(one.signatures[0].keyid).name for one in given] == [APPROVER]
    asked = plan.approvals
    found = check_approvals(
        digest, given, signers, asked.required_roles, distinct=True, now=utc_now()
    )
    assert found == []


def test_a_verdict_of_another_plan_is_not_signed(papers, records, capsys):
    other = verdict(records, "shadow", "0" * 64)

    assert not sign(papers, other)

    assert "was not reached under" in capsys.readouterr().err
    assert not list(other.parent.glob("*.approval.json"))
