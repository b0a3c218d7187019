"""Opens the MLflow pages of this project's store on its list of verdicts, for this machine only."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import urllib.request
import webbrowser
from pathlib import Path

from pipelines.console import say

_START_S = 60


def main(argv: list[str] | None = None) -> int:
    """Serves the pages until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.ui", description=__doc__)
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--no-browser", action="store_true", help="only print the addresses")
    arguments = parser.parse_args(argv)
    from pipelines.tracking import store_of

    store = store_of(Path.cwd())
    if store.lock is None:
        say(f"MLFLOW_TRACKING_URI is {store.uri}, which has its own pages: open them in a browser.")
        return 2
    if not store.lock.exists():
        say(f"There are no runs yet in {store.uri}: `make evaluate` writes the first.")
        return 2
    base = f"http://127.0.0.1:{arguments.port}"
    first = _say_addresses(store.uri, base)
    with subprocess.Popen(command(store.uri, arguments.port), env=os.environ) as server:
        try:
            if not arguments.no_browser and _has_display() and _answers(base, server):
                webbrowser.open(first)
            return server.wait()
        except KeyboardInterrupt:
            server.terminate()
            return 0


def command(uri: str, port: int) -> list[str]:
    """Returns the command that serves the pages of a store on this machine only.

    Args:
        uri: of the store.
        port: where the pages are.
    """
    served = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri]
    return [*served, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]


def _say_addresses(uri: str, base: str) -> str:
    """Prints the lists of verdicts, of the plan judged last first, and returns the first."""
    from pipelines.tracking.plans import plans_in
    from pipelines.tracking.view import EVIDENCE, address

    plans = plans_in(uri)
    for name, experiment in plans:
        say(f"{name}\n  go or no-go   {address(base, experiment)}")
        say(f"  evidence      {address(base, experiment, EVIDENCE)}")
    if not plans:
        say(f"No plan has a verdict in this store yet; all there is: {base}")
    say("(Ctrl-C ends it)")
    return address(base, plans[0][1]) if plans else base


def _has_display() -> bool:
    """Whether a browser would open a window; in a terminal one would take the terminal over."""
    if sys.platform in ("darwin", "win32"):
        return sys.stderr.isatty()
    return sys.stderr.isatty() and bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def _answers(base: str, server: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{base}/health", timeout=2):  # noqa: S310 - loopback
                return True
        except OSError:
            time.sleep(0.3)
    return False


if __name__ == "__main__":
    sys.exit(main())
