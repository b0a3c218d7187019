"""The flows themselves, on a Prefect server of their own, around a router on loopback."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterStateType
from prefect.client.schemas.objects import StateType
from prefect.testing.utilities import prefect_test_harness

from pipelines.flows.approval import approval
from pipelines.flows.assembling import people_of
from pipelines.flows.canary import canary
from pipelines.flows.options import (
    AuditOptions,
    RegistryOptions,
    options_of,
    token_of,
)
from pipelines.flows.promote import promote
from pipelines.flows.registry import MlflowRegistry
from pipelines.flows.rollback import rollback
from pipelines.flows.shadow import shadow
from pipelines.flows.watch import watch
from specdecode.errors import ConfigError
from tests.pipelines.fake_router import TOKEN
from tests.pipelines.release_project import release_project
from tests.pipelines.releases import WAY_UP, broken
from tests.tiny_models import write_tiny_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory):
    """A Prefect server of this module, which calls nobody."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        patch.setenv("DO_NOT_TRACK", "1")
        with prefect_test_harness(server_startup_timeout=120):
            yield


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("target"))


@pytest.fixture
def project(tmp_path):
    made = release_project(tmp_path)
    yield made
    made.spool.close()


def sign(project, found):
    """What the people in charge do when they are asked."""
    digest = found["verdict_sha256"]
    (records,) = project.folder.glob("releases/release-*")
    for number, content in enumerate(project.sign(digest, "Ada", "Grace")):
        (records / "approvals" / f"{digest}-{number}.approval.json").write_bytes(content)


def test_a_good_candidate_goes_from_shadow_to_champion_with_signatures(project, target, tmp_path):
    project.audit = AuditOptions(target=str(target))
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    project.registry = RegistryOptions(uri=uri, model="draft", lock=tmp_path / "registry.lock")
    with project.router.served() as url:
        release = project.options(url)
        asked = shadow(release=release, approval=None)
        assert project.router.went == WAY_UP[:1]
        assert (asked["action"], asked["status"]) == ("AskApproval", "GO")
        sign(project, asked)
        passed = shadow(release=release)
        assert (passed["action"], passed["carried_out"], passed["ended"]) == (
            "SetState", False, True)  # fmt: skip

        looks = []
        for _ in range(12):
            looks.append(canary(release=release))
            if looks[-1]["action"] == "AskApproval":
                sign(project, looks[-1])
            elif looks[-1]["action"] == "Promote":
                break
        watched = watch(release=release)

    assert project.router.went == WAY_UP
    assert looks[-1]["carried_out"]
    assert [look["step"] for look in looks if look["action"] == "AskApproval"] == [
        "0.05", "0.25", "0.5"]  # fmt: skip
    registry = MlflowRegistry(uri, "draft", "1", tmp_path / "registry.lock")
    assert registry.champion() == "1"
    assert (watched["action"], watched["stage"], watched["status"]) == ("Hold", "watch", "GO")
    assert json.loads((tmp_path / "gate.json").read_text())["stage"] == "watch"


def test_harm_in_the_canary_ends_with_plain_decoding_for_good(tmp_path):
    project = release_project(tmp_path, roles=())
    project.truths = {"canary 0.05": broken}
    with project.router.served() as url:
        release = project.options(url)
        shadow(release=release, for_s=300, every_s=0.1)
        found = canary(release=release, for_s=300, every_s=0.1)
        again = [shadow(release=release), canary(release=release), promote(release=release)]
    project.spool.close()

    assert (found["action"], found["status"]) == ("RollBack", "NO_GO")
    assert "error_rate" in found["reason"]
    assert project.router.went == [*WAY_UP[:2], ("off", 0.0)]
    assert {(look["action"], look["ended"]) for look in again} == {("Hold", True)}
    assert json.loads((tmp_path / "gate.json").read_text())["status"] == "NO_GO"


def test_a_roll_back_by_hand_is_written_down_and_holds(tmp_path):
    project = release_project(tmp_path, roles=())
    with project.router.served() as url:
        release = project.options(url)
        shadow(release=release)
        other = rollback(manifest_sha256="b" * 64, reason="another", release=release)
        done = rollback(manifest_sha256=project.manifest_sha256, reason="two\nlines",
                        release=release)  # fmt: skip
        twice = rollback(manifest_sha256="None", reason="again", release=release)
        after = shadow(release=release)
    project.spool.close()

    assert not other["changed"]
    assert "another release is under way" in other["newer"]
    assert (done["changed"], done["mode"], twice["changed"]) == (True, "off", False)
    assert project.router.state.reason == "two lines"
    assert (after["action"], after["ended"]) == ("Hold", True)
    assert "flow rollback" in after["reason"]


def paused(after=300.0):
    """Ids of flow runs that wait for input, as soon as there is one."""
    wanted = FlowRunFilter(state={"type": FlowRunFilterStateType(any_=[StateType.PAUSED])})
    with get_client(sync_client=True) as client:
        end = time.monotonic() + after
        while time.monotonic() < end:
            found = [run for run in client.read_flow_runs(flow_run_filter=wanted)
                     if run.state.state_details.run_input_keyset]  # fmt: skip
            if found:
                return found[0]
            time.sleep(0.2)
    raise AssertionError("no run waits for input")


def hand_in(envelope: bytes, before: UUID | None = None) -> UUID:
    """Resumes the run that waits with this input; the id of its pause."""
    while True:
        run = paused()
        if run.state.id != before:
            break
        time.sleep(0.1)
    with get_client(sync_client=True) as client:
        client.resume_flow_run(run.id, run_input={"envelope": envelope.decode()})
    return run.state.id


def test_a_paused_run_takes_signatures_and_asks_again_after_a_bad_one(project):
    with project.router.served() as url:
        release = project.options(url)
        digest = shadow(release=release, approval=None)["verdict_sha256"]
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(approval, digest, release=release, timeout_s=400, poll_s=1)
            (other,) = project.sign("f" * 64, "Ada")
            last = None
            for content in (b"nonsense", other, *project.sign(digest, "Ada", "Grace")):
                last = hand_in(content, last)
            found = waiting.result(400)
        passed = canary(release=release)

    assert found == {"signed": True, "missing": [], "why": None}
    assert (passed["action"], passed["step"]) == ("AskApproval", "0.05")
    assert project.router.went == WAY_UP[:2]


def test_nobody_who_signs_in_time_holds_and_fails_nothing(project):
    with project.router.served() as url:
        release = project.options(url)
        digest = shadow(release=release, approval=None)["verdict_sha256"]
        found = approval(digest, release=release, timeout_s=1, poll_s=1)

    assert found == {"signed": False, "missing": ["owner", "reviewer"],
                     "why": "nobody signed in time"}  # fmt: skip


def test_without_a_deployment_that_asks_people_sign_beside_the_verdict(project, caplog):
    with project.router.served() as url:
        release = project.options(url)
        found = shadow(release=release)

    assert found["action"] == "AskApproval"
    assert "there is no deployment approval/approval" in caplog.text


def test_a_watch_where_nothing_is_released_does_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPECDECODE_RELEASE", raising=False)

    assert watch() is None


def test_options_come_from_the_file_that_the_environment_names(project, tmp_path):
    path = tmp_path / "release.yaml"
    written = project.options("http://127.0.0.1:1").model_dump(mode="json")
    path.write_text(json.dumps(written), encoding="utf-8")
    found = options_of(None, {"SPECDECODE_RELEASE": str(path)})

    assert found == project.options("http://127.0.0.1:1")
    assert token_of(found) == TOKEN
    assert people_of(found).plan == project.plan
    path.write_text(json.dumps(written | {"routre": 1}), encoding="utf-8")
    with pytest.raises(ConfigError, match="routre"):
        options_of(None, {"SPECDECODE_RELEASE": str(path)})
    with pytest.raises(ConfigError, match="no such release"):
        options_of(None, {"SPECDECODE_RELEASE": str(tmp_path / "none.yaml")})
    with pytest.raises(ConfigError, match="SPECDECODE_ROUTER_TOKEN"):
        token_of(project.options("http://x", token_file=None), {})
