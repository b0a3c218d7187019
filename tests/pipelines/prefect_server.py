"""A Prefect server on loopback, and a small repository with this project's deployments."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from pipelines.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 180
T = TypeVar("T")


def eventually(look: Callable[[], T | None]) -> T:
    """Looks again and again until there is something to see."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"nothing came of {look} within {PATIENCE_S} s")


@dataclass(frozen=True)
class Served:
    """A running server and the repository it is set up from."""

    root: Path
    url: str
    variables: dict[str, str] = field(default_factory=dict)

    def python(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """Runs the interpreter of this test run in the repository, against this server."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment() | self.variables | {"PREFECT_API_URL": self.url} | extra,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def apply(self, *arguments: str, **extra: str) -> list[str]:
        """Brings the server to its state and returns what was said."""
        done = self.python("-m", "pipelines.deployments", "apply", *arguments, **extra)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr.splitlines()


def environment() -> dict[str, str]:
    """The caller's environment without what would point a test elsewhere."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "MLFLOW_", "SPECDECODE_", "PYTEST_"))
    }
    return kept | {
        "PYTHONPATH": str(ROOT),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "DO_NOT_TRACK": "1",
    }


def small_repository(folder: Path) -> Path:
    """The deployments, parameters and plan of this project, with flows that do nothing.

    Deploying loads each flow, and the real ones bring MLflow and DVC along.
    """
    folder.mkdir()
    for name in ("prefect.yaml", "params.yaml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "plans").mkdir()
    shutil.copy(ROOT / "plans/default.yaml", folder / "plans")
    for entry in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]:
        file, function = entry["entrypoint"].rsplit(":", 1)
        taken = {"manifest_sha256", "reason", *(entry.get("parameters") or {})}
        words = ", ".join(f"{name}: object = None" for name in sorted(taken))
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "from prefect import flow\n\n\n"
            f"@flow(name={function.replace('_', '-')!r})\n"
            f"def {function}({words}):\n    return None\n"
        )
    return folder


@contextlib.contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Starts a server with a home and database of its own; ends it by its id."""
    port = str(free_ports()[0])
    home = environment() | {"PREFECT_HOME": str(folder / "prefect")}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    log = folder / "server.log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            [*command, "--port", port],
            env=home,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        ) as server,
    ):
        try:
            url = f"http://127.0.0.1:{port}/api"

            def answers() -> bool:
                assert server.poll() is None, log.read_text()[-4000:]
                with contextlib.suppress(urllib.error.URLError, OSError):
                    urllib.request.urlopen(f"{url}/health", timeout=5).close()  # noqa: S310
                    return True
                return False

            eventually(answers)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


class Duty:
    """Whoever is on duty: keeps what the webhook was called with."""

    def __init__(self) -> None:
        self.heard: queue.Queue[dict[str, Any]] = queue.Queue()
        heard = self.heard

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                heard.put(json.loads(self.rfile.read(size)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where to call."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def told(self) -> str:
        """The next message."""
        return str(self.heard.get(timeout=PATIENCE_S)["text"])

    def leave(self) -> None:
        """Closes the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
