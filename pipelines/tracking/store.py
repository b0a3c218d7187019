"""Where runs go: this project's own database, or the server that a variable names.

Every call names its store. MLflow would otherwise take an old `mlruns` folder lying about for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

URI = "MLFLOW_TRACKING_URI"
ARTIFACTS = "SPECDECODE_MLFLOW_ARTIFACTS"


@dataclass(frozen=True)
class Store:
    """Where runs go.

    Attributes:
        uri: a tracking address MLflow understands.
        artifacts: folder for files; null when a server decides.
        lock: file that keeps a second writer out, null for a server, which sees to it itself. An
            empty database is set up by its first user, and two at once fail with duplicate columns.
    """

    uri: str
    artifacts: str | None
    lock: Path | None


def store_of(root: Path, environ: Mapping[str, str] = os.environ) -> Store:
    """Returns the store of the project at `root`: mlflow.db and mlartifacts/ unless overridden."""
    root = root.resolve()
    uri = environ.get(URI) or f"sqlite:///{root}/mlflow.db"
    if not uri.startswith("sqlite:"):
        return Store(uri, environ.get(ARTIFACTS), None)
    database = Path(uri.removeprefix("sqlite:///"))
    folder = environ.get(ARTIFACTS) or str(database.parent / "mlartifacts")
    return Store(uri, Path(folder).resolve().as_uri(), database.with_name(database.name + ".lock"))


@contextlib.contextmanager
def alone(store: Store) -> Iterator[None]:
    """While open, no other writer of this project changes the store."""
    if store.lock is None:
        yield
        return
    store.lock.parent.mkdir(parents=True, exist_ok=True)
    with store.lock.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
