"""Everything that runs in a demonstration, in the order of its start.

    baseline, candidate     two engine servers
    router                  in front of them, in mode "off" at first
    prefect, worker         run the flows
    mlflow                  shows the registry
    approver                signs for the person who may approve, unless you do it yourself
    traffic                 users; few ones wait until the shadow has begun, or none would be seen

Every server listens on loopback, on a port that was free.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipelines.console import say
from pipelines.demo.faults import NONE
from pipelines.demo.model import Models, make_models
from pipelines.demo.papers import Papers, make_papers
from pipelines.demo.processes import Card, Family, Program
from pipelines.demo.ready import Ready, answers, says, says_its_address
from pipelines.demo.traffic import TRACE
from pipelines.ports import free_ports
from specdecode.durable import written_whole
from specdecode.errors import EngineError
from specdecode.rollout.state import Mode

LITTLE_TRAFFIC = "little-traffic"
LITTLE = 60
"""Requests of a trace that is too short for any answer."""
MODEL = "demo"
REGISTERED = "demonstration"
_WAIT_S = 180.0
_TOKEN_MODE = 0o600


@dataclass(frozen=True)
class DemoSettings:
    """What is shown.

    Attributes:
        root: the repository, which flows run in.
        fault: of the candidate, or "little-traffic", which is one of the traffic.
        when: mode of the router in which the fault begins; "off": from the start.
        speed: of the traffic, times the trace's own.
        signs: whether the demonstration signs for the person who may approve.
    """

    root: Path
    fault: str = NONE
    when: Mode = "off"
    speed: float = 1.0
    signs: bool = True


@dataclass(frozen=True)
class Run:
    """One demonstration and its files.

    Attributes:
        folder: of the run.
        papers: plan, keys, manifest.
        models: of both servers.
    """

    folder: Path
    papers: Papers
    models: Models

    @property
    def token(self) -> Path:
        """File of the router's token."""
        return self.folder / "token"

    @property
    def router_state(self) -> Path:
        """The router's folder."""
        return self.folder / "router"

    @property
    def gate(self) -> Path:
        """The latest verdict, which the router's /gate shows."""
        return self.folder / "gate.json"

    @property
    def records(self) -> Path:
        """Verdicts, journals and bundles of the flows."""
        return self.folder / "records"

    @property
    def release(self) -> Path:
        """What the flows are told."""
        return self.folder / "release.yaml"

    @property
    def traffic(self) -> Path:
        """What users got."""
        return self.folder / "traffic.json"

    @property
    def registry(self) -> str:
        """Address of MLflow's store."""
        return f"sqlite:///{self.folder / 'mlflow.db'}"


def prepare(base: Path, name: str, settings: DemoSettings) -> Run:
    """Models, papers and a token for a new run.

    Args:
        base: folder of the demonstration.
        name: of the run; no run had it before.
        settings: of the run.
    """
    models = make_models(base / "models")
    folder = base / name
    folder.mkdir()
    papers = make_papers(folder, models, TRACE, name, settings.root)
    run = Run(folder, papers, models)
    with written_whole(run.token, mode=_TOKEN_MODE) as file:
        file.write(secrets.token_urlsafe(32).encode() + b"\n")
    return run


def start(family: Family, run: Run, settings: DemoSettings) -> Iterator[Card]:
    """Start everything, one after the other; yields each as it is ready.

    Raises:
        EngineError: one of them does not start. What was started before still runs.
    """
    prefect_at, mlflow_at = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    baseline = family.start(_engine("baseline", run, None, settings))
    yield baseline
    candidate = family.start(_engine("candidate", run, run.models.draft, settings))
    yield candidate
    router = family.start(_router(run, baseline.url, candidate.url))
    yield router
    _write_release(run, router.url)
    environment = flow_environment(run, prefect_at)
    yield family.start(_prefect(prefect_at, environment))
    _set_up(run, settings, environment)
    yield family.start(_worker(settings, environment))
    yield family.start(_mlflow(run, mlflow_at))
    if settings.signs:
        yield family.start(_approver(run, settings))
    if settings.fault != LITTLE_TRAFFIC:
        yield family.start(traffic(run, router.url, settings))


def flow_environment(run: Run, prefect: str) -> dict[str, str]:
    """What flows, and who starts them, find in their environment."""
    return {
        "PREFECT_HOME": str(run.folder / "prefect"),
        "PREFECT_API_URL": f"{prefect}/api",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "SPECDECODE_RELEASE": str(run.release),
        "MLFLOW_TRACKING_URI": run.registry,
    }


def _engine(name: str, run: Run, draft: Path | None, settings: DemoSettings) -> Program:
    argv = [sys.executable, "-m", "pipelines.demo.engine", "--target", str(run.models.target)]
    argv += ["--name", MODEL]
    if draft is not None:
        fault = NONE if settings.fault == LITTLE_TRAFFIC else settings.fault
        argv += ["--draft", str(draft), "--fault", fault]
        argv += [] if settings.when == "off" else ["--on-signal"]
    return Program(name, argv, says_its_address, {"OMP_NUM_THREADS": "1"}, settings.root, _WAIT_S)


def _router(run: Run, baseline: str, candidate: str) -> Program:
    argv = [
        *(sys.executable, "-m", "specdecode", "route"),
        *("--baseline", baseline, "--candidate", candidate),
        *("--baseline-arm", "plain", "--candidate-arm", "block"),
        *("--state-dir", str(run.router_state), "--token-file", str(run.token)),
        *("--verdict", str(run.gate), "--host", "127.0.0.1", "--port", "0"),
        "--token-ids",
    ]
    return Program("router", argv, says(r"listening on (http://\S+)"), ready_s=_WAIT_S)


def traffic(run: Run, router: str, settings: DemoSettings) -> Program:
    """Users."""
    argv = [sys.executable, "-m", "pipelines.demo.replay", router, "--model", MODEL]
    argv += ["--trace", str(run.papers.trace), "--speed", f"{settings.speed:g}"]
    argv += ["--out", str(run.traffic)]
    if settings.fault == LITTLE_TRAFFIC:
        argv += ["--limit", str(LITTLE)]
    return Program("traffic", argv, _once, folder=settings.root)


def _once(_text: str) -> str | None:
    return ""


def _prefect(url: str, environment: Mapping[str, str]) -> Program:
    argv = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    argv += ["--port", url.rpartition(":")[2]]
    return Program("prefect", argv, answers(url, "/api/health"), environment, ready_s=_WAIT_S)


def _set_up(run: Run, settings: DemoSettings, environment: Mapping[str, str]) -> None:
    """Pools, limits, deployments and automations, as an operator would.

    Raises:
        EngineError: the server refuses them.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.deployments", "apply"],
        cwd=settings.root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    (run.folder / "deployments.log").write_text(done.stdout + done.stderr, "utf-8")
    if done.returncode:
        raise EngineError(
            f"the deployments were not made: {(done.stderr or done.stdout).strip()[-2000:]}"
        )


def _worker(settings: DemoSettings, environment: Mapping[str, str]) -> Program:
    argv = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "cpu", "--name", "demo"]
    ready: Ready = says(r"[Ww]orker .*started")
    return Program("worker", argv, ready, environment, settings.root, _WAIT_S)


def _mlflow(run: Run, url: str) -> Program:
    argv = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", run.registry]
    argv += ["--host", "127.0.0.1", "--port", url.rpartition(":")[2], "--workers", "1"]
    return Program("mlflow", argv, answers(url, "/health"), folder=run.folder, ready_s=_WAIT_S)


def _approver(run: Run, settings: DemoSettings) -> Program:
    argv = [sys.executable, "-m", "pipelines.demo.approver", str(run.folder)]
    return Program("approver", argv, says("waits for verdicts"), {}, settings.root, _WAIT_S)


def _write_release(run: Run, router: str) -> None:
    papers = run.papers
    document = {
        "router": router,
        "plan": str(papers.plan),
        "manifest": str(papers.manifest),
        "spool": str(run.router_state / "spool"),
        "records": str(run.records),
        "token_file": str(run.token),
        "ledger": str(papers.ledger),
        "gate_file": str(run.gate),
        "audit": {"target": str(run.models.target), "draft": str(run.models.draft), "alpha": 0.01},
        "data_quality": str(papers.checked),
        "dvc_lock": "dvc.lock",
        "registry": {
            "uri": run.registry,
            "model": REGISTERED,
            "source": str(run.models.draft),
            "lock": str(run.folder / "registry.lock"),
        },
    }
    with written_whole(run.release) as file:
        file.write(yaml.safe_dump(document, sort_keys=False).encode())
    say(f"what the flows are told is in {run.release}")
