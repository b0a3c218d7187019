"""What is started for the measurement, all of it on loopback and none of it on the network."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipelines.external.environments import LITELLM_OFFLINE, environment, interpreter
from pipelines.route_bench.upstream import MODEL
from specdecode.workload.server_process import PORT, ServerCommand, ServerProcess

TOKEN = "of-the-bench"  # noqa: S105 - of a router that lives as long as its measurement
LITELLM = "litellm"
_READY_S = 120.0
_STOP_S = 10.0


@dataclass(frozen=True)
class Timing:
    """When the upstream answers.

    Attributes:
        delay_ms: before the first byte.
        chunks: events of a stream.
        gap_ms: between them.
    """

    delay_ms: float = 5.0
    chunks: int = 20
    gap_ms: float = 2.0


@dataclass(frozen=True)
class Servers:
    """What runs.

    Attributes:
        baseline: what everything is measured against.
        candidate: gets copies, or a share.
        router: in front of both; None where it is not measured.
        litellm: in front of the baseline; None where it is not measured.
    """

    baseline: ServerProcess
    candidate: ServerProcess
    router: ServerProcess | None
    litellm: ServerProcess | None


@contextmanager
def running(
    folder: Path, timing: Timing, *, router: bool = True, litellm: bool = True
) -> Iterator[Servers]:
    """Start all of them, and stop them at the end whatever happens.

    Args:
        folder: of logs, and of what the router keeps.
        timing: of both upstreams.
        router: whether to start the router.
        litellm: whether to start LiteLLM.

    Raises:
        MissingPrerequisiteError: LiteLLM is not installed; says which command does it.
        EngineError: one of them does not start; with the end of its log.
    """
    installed = environment(LITELLM) if litellm else None
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:

        def start(name: str, command: ServerCommand) -> ServerProcess:
            return stack.enter_context(ServerProcess(command, folder / f"{name}.log"))

        baseline = start("baseline", upstream_command(timing))
        candidate = start("candidate", upstream_command(timing))
        yield Servers(
            baseline,
            candidate,
            start("router", router_command(baseline.url, candidate.url, folder))
            if router
            else None,
            None
            if installed is None
            else start(LITELLM, litellm_command(installed, baseline.url, folder)),
        )


def upstream_command(timing: Timing) -> ServerCommand:
    """The server that answers."""
    argv = [sys.executable, "-m", "pipelines.route_bench.upstream", "--port", PORT]
    argv += ["--delay-ms", str(timing.delay_ms), "--chunks", str(timing.chunks)]
    argv += ["--gap-ms", str(timing.gap_ms)]
    return ServerCommand(argv, ready_s=_READY_S, stop_s=_STOP_S)


def router_command(baseline: str, candidate: str, folder: Path) -> ServerCommand:
    """`specdecode route`, with what it keeps in `folder`.

    Args:
        baseline: address.
        candidate: address.
        folder: gets the token's file and the router's state.
    """
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN, encoding="utf-8")
    argv = [sys.executable, "-m", "specdecode", "route"]
    argv += ["--baseline", baseline, "--candidate", candidate]
    argv += ["--state-dir", str(folder / "router"), "--token-file", str(token)]
    argv += ["--host", "127.0.0.1", "--port", PORT]
    return ServerCommand(argv, ready_s=_READY_S, stop_s=_STOP_S)


def litellm_command(installed: Path, baseline: str, folder: Path) -> ServerCommand:
    """LiteLLM's proxy with one worker and nothing switched on but forwarding.

    Args:
        installed: its environment.
        baseline: address.
        folder: gets its configuration.
    """
    config = folder / "litellm.yaml"
    config.write_text(json.dumps(litellm_config(baseline), indent=1), encoding="utf-8")
    program = interpreter(installed).with_name("litellm")
    argv = [str(interpreter(installed)), str(program), "--config", str(config)]
    argv += ["--host", "127.0.0.1", "--port", PORT, "--num_workers", "1", "--telemetry", "False"]
    return ServerCommand(
        argv,
        {
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            **LITELLM_OFFLINE,
            "LITELLM_LOG": "ERROR",
            "LITELLM_MODE": "PRODUCTION",
            "NO_DOCS": "True",
            "PYTHONPATH": "",
        },
        ready_path="/health/liveliness",
        ready_s=_READY_S,
        stop_s=_STOP_S,
    )


def litellm_config(baseline: str) -> dict[str, object]:
    """Its configuration; YAML takes JSON.

    Args:
        baseline: address.
    """
    return {
        "model_list": [
            {
                "model_name": MODEL,
                "litellm_params": {
                    "model": f"openai/{MODEL}",
                    "api_base": f"{baseline}/v1",
                    "api_key": "none",
                },
            }
        ],
        # It listens on loopback in front of a server that holds nothing; a key would cost it time.
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
        "litellm_settings": {"telemetry": False, "num_retries": 0, "request_timeout": 60},
    }
