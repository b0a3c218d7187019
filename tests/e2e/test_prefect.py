"""The flow, deployed to a real Prefect server and run by a real worker, both on loopback."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.ports import free_ports
from tests.e2e.conftest import quick_project
from tests.e2e.project import Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PREFECT = [sys.executable, "-m", "prefect"]


def wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-4000:]
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - loopback
            return
        time.sleep(0.5)
    raise AssertionError(f"no answer from {url}:\n{log.read_text()[-4000:]}")


@contextlib.contextmanager
def started(project: Project, log: Path, *command: str) -> Iterator[subprocess.Popen]:
    """Runs a program beside the test and ends it, by its own id, whatever happens."""
    with (
        log.open("w") as out,
        subprocess.Popen(
            [*PREFECT, *command],
            cwd=project.root,
            env=project.environment(),
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A quick project whose nightly deployment is known to a server and served by a worker."""
    folder = tmp_path_factory.mktemp("prefect")
    (port,) = free_ports()
    quick = quick_project(folder)
    quick.params(decoding__max_tokens=6)
    quick.prompts(4)
    project = Project(
        quick.root,
        quick.home,
        {
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
            "DO_NOT_TRACK": "1",
        },
    )
    server_log, worker_log = folder / "server.log", folder / "worker.log"
    with started(
        project, server_log, "server", "start", "--host", "127.0.0.1", "--port", str(port)
    ) as server:
        wait_for(f"http://127.0.0.1:{port}/api/health", server, server_log)
        project.run(*PREFECT, "work-pool", "create", "cpu", "--type", "process")
        project.run(*PREFECT, "--no-prompt", "deploy", "--all")
        with started(project, worker_log, "worker", "start", "--pool", "cpu"):
            yield project


def flow_run(project: Project, *parameters: str) -> tuple[int, str]:
    done = project.run(
        *PREFECT,
        *("deployment", "run", "evaluate/nightly", "--watch", "--watch-timeout", "600"),
        *parameters,
        check=False,
    )
    return done.returncode, done.stdout


def test_the_nightly_deployment_has_its_schedule_and_pool(deployed: Project) -> None:
    shown = deployed.run(*PREFECT, "deployment", "inspect", "evaluate/nightly", "-o", "json").stdout

    deployment = json.loads(shown[shown.index("{") : shown.rindex("}") + 1])
    assert deployment["work_pool_name"] == "cpu"
    assert deployment["parameters"] == {"profile": "full", "remeasure": True}
    assert deployment["schedules"][0]["schedule"]["cron"] == "0 2 * * *"


def test_a_worker_runs_the_evaluation_to_its_verdict(deployed: Project) -> None:
    status, output = flow_run(deployed)

    assert status == 0, output + (deployed.root.parent / "worker.log").read_text()[-6000:]
    assert "Completed" in output
    verdict = deployed.json("reports/verdict.json")
    assert verdict["manifest_sha256"] == deployed.json("reports/manifest.json")["manifest_sha256"]
    artifacts = deployed.run(*PREFECT, "artifact", "inspect", "evaluation-full").stdout
    assert verdict["status"] in artifacts


def test_a_stage_that_fails_fails_the_run(deployed: Project) -> None:
    verdict = (deployed.root / "reports/verdict.json").read_bytes()
    deployed.params(target__source="no/such/model")

    status, output = flow_run(deployed)

    assert status != 0
    assert "Failed" in output
    assert "stage 'sources' failed" in (deployed.root.parent / "worker.log").read_text()
    assert (deployed.root / "reports/verdict.json").read_bytes() == verdict
