"""The whole rollout, as `make up` shows it: servers, router, traffic, Prefect server and worker.

Each test starts a demonstration, lets it come to its end, and reads the result from what is on
record: the router's state, the flows' journal, the counts of the users' side. What is told on the
screen is not trusted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.demo.papers import APPROVER, papers_in
from pipelines.demo.processes import Family
from pipelines.demo.stack import LITTLE, REGISTERED
from specdecode.governance.dsse import parse_envelope
from specdecode.governance.plan import load_plan
from specdecode.governance.signers import load_signers
from specdecode.governance.subjects import file_sha256
from specdecode.governance.verifier import verify
from specdecode.rollout.spool_reader import read_spool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
MAY_TAKE_S = 900


@dataclass(frozen=True)
class Ended:
    """A demonstration that has come to its end and still runs."""

    folder: Path
    said: str

    @property
    def history(self) -> list[dict[str, Any]]:
        """Every state the router has had since, in order."""
        lines = (self.folder / "router/history.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    @property
    def modes(self) -> list[tuple[str, float]]:
        return [(entry["mode"], entry["share"]) for entry in map(state_of, self.history)]

    @property
    def last(self) -> dict[str, Any]:
        return state_of(self.history[-1])

    @property
    def traffic(self) -> dict[str, Any]:
        return json.loads((self.folder / "traffic.json").read_text())

    @property
    def gate(self) -> dict[str, Any]:
        return json.loads((self.folder / "gate.json").read_text())


def state_of(entry: dict[str, Any]) -> dict[str, Any]:
    return entry.get("state", entry)


def demo(base: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines.demo", "--folder", str(base), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=MAY_TAKE_S,
        check=False,
    )


@contextmanager
def shown(base: Path, *arguments: str) -> Iterator[Ended]:
    """A demonstration at its end; gone, every process of it, afterwards."""
    try:
        done = demo(base, "up", "--every", "1", *arguments)
        logs = "\n".join(
            f"== {path.name}\n{path.read_text()[-3000:]}" for path in (base / "logs").glob("*.log")
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{logs}"
        yield Ended(base / (base / "current").read_text(), done.stderr)
    finally:
        ended = demo(base, "down")
    assert ended.returncode == 0, ended.stderr
    assert Family(base).strays() == []


def assert_no_user_got_a_failure(ended: Ended) -> None:
    """Whatever the candidate did. The plan would allow one in a hundred."""
    traffic = ended.traffic
    assert traffic["failed"] == {}, traffic
    assert traffic["replied"] > 0


def test_a_good_candidate_goes_all_the_way_with_approvals(tmp_path):
    with shown(tmp_path / "demo") as ended:
        assert "PROMOTED" in ended.said
        assert ended.modes == [
            ("shadow", 1.0),
            ("canary", 0.05),
            ("canary", 0.25),
            ("canary", 0.5),
            ("full", 1.0),
        ]
        assert_no_user_got_a_failure(ended)
        papers = papers_in(ended.folder)
        (release,) = (ended.folder / "records").glob("release-*")

        # Each step was signed by the one person who may, on the very verdict that is on record.
        verdicts = sorted(release.glob("*.verdict.json"))
        stages = {path.name.rpartition("-")[0] for path in verdicts}
        assert stages >= {"shadow", "canary-0.05", "canary-0.25", "canary-0.5"}
        signers = {signer.key_id: signer.name for signer in load_signers(papers.signers)}
        for path in verdicts:
            assert json.loads(path.read_bytes())["status"] == "GO"
            (approval,) = release.glob(f"{path.stem}.*.approval.json")
            envelope = parse_envelope(approval.read_bytes())
            assert [signers[one.keyid] for one in envelope.signatures] == [APPROVER]

        # The alias moved, with a bundle that a stranger can verify.
        (bundle,) = release.glob("*.evidence.zip")
        checked = verify(bundle)
        assert (checked["status"], checked["exit_code"]) == ("GO", 0), checked
        assert champion(ended.folder)["gate.bundle_sha256"] == file_sha256(bundle)

        # What users sent is on record, each once.
        rows = read_spool(ended.folder / "router/spool", manifest_sha256=papers.manifest_sha256)
        ids = rows.column("request_id").to_pylist()
        assert len(ids) == len(set(ids))
        assert set(rows.column("stage").to_pylist()) >= {"shadow", "canary", "watch"}


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        pytest.param("slow", "e2e_s", id="slow"),
        pytest.param("biased", "block-lossless", id="biased"),
        pytest.param("errors", "error_rate", id="errors"),
        pytest.param("one-stratum", "category=code", id="one-stratum"),
    ],
)
def test_a_bad_candidate_is_taken_back_before_any_user_sees_it(tmp_path, fault, why):
    with shown(tmp_path / "demo", "--fault", fault) as ended:
        assert "TAKEN BACK" in ended.said
        assert ended.modes == [("shadow", 1.0), ("off", 0.0)]
        assert ended.gate["status"] == "NO_GO"
        assert why in json.dumps([e for e in ended.gate["rules"] if e["outcome"] == "fail"])
        assert "NO_GO" in ended.last["reason"]
        assert_no_user_got_a_failure(ended)
        assert set(ended.traffic["arms"]) == {"plain"}


def test_one_that_turns_bad_in_the_canary_is_taken_back_at_once(tmp_path):
    with shown(tmp_path / "demo", "--fault", "slow", "--when", "canary") as ended:
        assert "TAKEN BACK" in ended.said
        assert ended.modes == [("shadow", 1.0), ("canary", 0.05), ("off", 0.0)]
        assert (ended.gate["stage"], ended.gate["status"]) == ("canary", "NO_GO")
        assert "harm is shown" in json.dumps(ended.gate["reasons"])
        assert_no_user_got_a_failure(ended)


def test_too_little_traffic_never_promotes(tmp_path):
    with shown(tmp_path / "demo", "--fault", "little-traffic") as ended:
        assert "HELD" in ended.said
        assert ended.modes == [("shadow", 1.0)]
        assert ended.gate["status"] == "INCONCLUSIVE"
        plan = load_plan(papers_in(ended.folder).plan)
        needed = plan.at("shadow").sequential_stage
        assert needed is not None
        assert ended.traffic["sent"] == LITTLE < needed.n_min
        assert f"{needed.n_min} requests are needed" in json.dumps(ended.gate["rules"])


def champion(folder: Path) -> dict[str, str]:
    """Tags of the version that the alias names."""
    from mlflow import MlflowClient

    uri = f"sqlite:///{folder / 'mlflow.db'}"
    version = MlflowClient(uri, uri).get_model_version_by_alias(REGISTERED, "champion")
    return dict(version.tags)
