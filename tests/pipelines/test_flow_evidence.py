"""The bundle a promotion rests on, and the approvals and the ledger behind it, all of them real."""

from __future__ import annotations

import json
import logging

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from pipelines.flows.assembling import release_of
from pipelines.flows.look import look, run
from pipelines.flows.options import AuditOptions
from specdecode import models
from specdecode.cli.app import app
from specdecode.governance.ladder_actions import AskApproval, Hold, Promote, SetState
from specdecode.rollout.spool_reader import read_spool
from specdecode.rollout.state import RolloutState
from tests.governance.keys import ADA, GRACE
from tests.pipelines.release_project import release_project
from tests.pipelines.releases import WAY_UP
from tests.tiny_models import write_tiny_model

LOG = logging.getLogger("test")
MAY = frozenset({"shadow", "canary", "full"})


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("target"))


@pytest.fixture
def project(tmp_path):
    made = release_project(tmp_path)
    yield made
    made.spool.close()


def up(project, url, *, sign=("Ada", "Grace"), until=Promote, **changes):
    """Looks, signing whatever is asked for, until an action of that kind or no more to do."""
    for _ in range(30):
        release = release_of(project.options(url, **changes), "flow test", LOG)
        found = run(look(release, MAY))
        if isinstance(found.action, AskApproval) and sign:
            for number, content in enumerate(project.sign(found.action.verdict_sha256, *sign)):
                place = release.records.inbox / f"{found.action.verdict_sha256}-{number}"
                place.with_suffix(".approval.json").write_bytes(content)
        elif isinstance(found.action, until) or found.ended:
            return found
    raise AssertionError("it goes on and on")


def test_a_signed_release_ends_in_a_bundle_that_a_stranger_can_verify(project, target):
    from specdecode.governance.verifier import verify

    audit = AuditOptions(target=str(target))
    with project.router.served() as url:
        found = up(project, url, audit=audit)

    assert isinstance(found.action, Promote), found.action.reason
    assert found.carried_out, found.action.reason
    assert project.router.went == WAY_UP
    (bundle,) = project.folder.glob("releases/*/canary-0.5-*.evidence.zip")
    result = verify(bundle)
    assert (result["exit_code"], result["status"]) == (0, "GO")
    ledger = (project.folder / "ledger.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in ledger]
    assert kinds == ["seal", *["verdict", "approval", "approval"] * 4]


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16"])
def test_the_audit_loads_the_target_as_the_engine_did(project, target, dtype, monkeypatch):
    """In another precision ties break another way, and a sound engine looks biased."""
    loaded, load = [], models.load_model

    def noted(spec, device="auto", dtype="auto"):
        loaded.append((dtype, load(spec, device, dtype)))
        return loaded[-1][1]

    monkeypatch.setattr(models, "load_model", noted)
    with project.router.served() as url:
        options = project.options(url, audit={"target": str(target), "dtype": dtype})
        release = release_of(options, "flow test", LOG)
    project.serve(RolloutState(version=1, mode="shadow", share=1.0, manifest_sha256="a" * 64))
    report = release.evidence.audit(read_spool(project.folder / "spool"))

    [(asked, model)] = loaded
    assert asked == dtype
    assert dtype in ("auto", str(model.dtype).removeprefix("torch."))
    assert set(report["arms"]) == {"plain", "block"}


def test_a_dtype_that_there_is_not_is_refused_before_anything_runs(target):
    with pytest.raises(ValidationError, match="dtype"):
        AuditOptions(target=str(target), dtype="int8")


def test_without_an_audit_nothing_is_promoted_and_the_audit_can_come_later(project, target):
    with project.router.served() as url:
        held = up(project, url)
        assert isinstance(held.action, Hold)
        assert "has no audit beside it" in held.action.reason
        assert project.router.went == WAY_UP[:-1]
        found = up(project, url, audit=AuditOptions(target=str(target)))

    assert isinstance(found.action, Promote)
    assert project.router.went == WAY_UP


@pytest.mark.parametrize(
    ("suffix", "says"),
    [(".rows.parquet", "not the rows"), (".verdict.json", "")],
    ids=["rows", "verdict"],
)
def test_what_was_changed_on_record_is_not_promoted(project, target, suffix, says):
    with project.router.served() as url:
        up(project, url)
        (path,) = project.folder.glob(f"releases/*/canary-0.5-*{suffix}")
        if suffix == ".rows.parquet":
            (other,) = project.folder.glob("releases/*/canary-0.25-*.rows.parquet")
            path.write_bytes(other.read_bytes())
        else:
            path.write_bytes(path.read_bytes().replace(b'"GO"', b'"GO" '))
        held = up(project, url, sign=(), until=AskApproval, audit=AuditOptions(target=str(target)))

    assert isinstance(held.action, Hold | AskApproval)
    assert says in held.action.reason
    assert project.router.went == WAY_UP[:-1]


def test_who_sealed_the_plan_does_not_count_as_a_signer(tmp_path):
    project = release_project(tmp_path, roles=("operator",))
    with project.router.served() as url:
        release = release_of(project.options(url), "flow test", LOG)
        run(look(release, MAY))
        asked = run(look(release, MAY)).action
        assert isinstance(asked, AskApproval)
        (content,) = project.sign(asked.verdict_sha256, "Linus")
        (release.records.inbox / "l.approval.json").write_bytes(content)
        again = run(look(release, MAY)).action
    project.spool.close()

    assert isinstance(again, AskApproval)
    assert "proposed the change" in again.reason


def test_a_bundle_that_was_made_elsewhere_must_be_of_this_verdict(project, target, tmp_path):
    audit = AuditOptions(target=str(target))
    with project.router.served() as url:
        up(project, url)  # as far as the bundle that is missing
        missing = up(project, url, audit=audit, bundle=tmp_path / "none.zip")
        assert "there is no such bundle" in missing.action.reason
        (tmp_path / "noise.zip").write_bytes(b"PK")
        noise = up(project, url, audit=audit, bundle=tmp_path / "noise.zip")
        assert "not promoted" in noise.action.reason
    assert project.router.went == WAY_UP[:-1]


def test_what_specdecode_approve_writes_is_found_where_it_writes_it(project, tmp_path):
    with project.router.served() as url:
        asked = up(project, url, sign=(), until=AskApproval).action
        assert isinstance(asked, AskApproval)
        (verdict,) = project.folder.glob("releases/*/shadow-*.verdict.json")
        for name, key in (("ada", ADA), ("grace", GRACE)):
            key.save(tmp_path / f"{name}.pem")
            done = CliRunner().invoke(
                app,
                ["approve", str(verdict), "--plan", str(project.folder / "plan.yaml"),
                 "--key", str(tmp_path / f"{name}.pem"),
                 "--ledger", str(project.folder / "ledger.jsonl")],
            )  # fmt: skip
            assert done.exit_code == 0, done.output
        found = up(project, url, sign=(), until=SetState)

    assert isinstance(found.action, SetState)
    assert found.refused == ()
    assert project.router.went == WAY_UP[:2]
