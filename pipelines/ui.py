"""Opens the MLflow pages on this project's store, for this machine only."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from pipelines.console import say


def main(argv: list[str] | None = None) -> int:
    """Serves the pages until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.ui", description=__doc__)
    parser.add_argument("--port", type=int, default=5000)
    arguments = parser.parse_args(argv)
    from pipelines.tracking import store_of

    store = store_of(Path.cwd())
    if store.lock is None:
        say(f"MLFLOW_TRACKING_URI is {store.uri}, which has its own pages: open them in a browser.")
        return 2
    if not store.lock.exists():
        say(f"There are no runs yet in {store.uri}: `make evaluate` writes the first.")
        return 2
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store.uri]
    command += ["--host", "127.0.0.1", "--port", str(arguments.port), "--workers", "1"]
    say(f"http://127.0.0.1:{arguments.port}   (Ctrl-C ends it)")
    with subprocess.Popen(command, env=os.environ) as server:
        try:
            return server.wait()
        except KeyboardInterrupt:
            server.terminate()
            return 0


if __name__ == "__main__":
    sys.exit(main())
