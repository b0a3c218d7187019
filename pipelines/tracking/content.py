"""What a run says, before anything is written, and how settings become its parameters."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow.entities import DatasetInput

from pipelines.machine_load import Moment

KIND = "run.kind"
"""Tag that tells releases, stages, arms and inputs apart; views filter by it."""


@dataclass(frozen=True)
class RunContent:
    """What one run says.

    Attributes:
        key: names it among the runs of its parent; `record` answers by it.
        name: shown in the list of runs.
        identity: tags by which the run is found again.
        tags: further words and digests.
        params: settings.
        metrics: numbers; null and not finite ones are left out, never sent as zero.
        series: numbers that grew, by name: (step, value), in order.
        moments: numbers by the clock.
        datasets: what it was made from.
        artifacts: files and folders to keep beside the run.
        children: runs nested in it.
        renames: whether a run that is there already takes this name.
    """

    key: str
    name: str
    identity: Mapping[str, str]
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    series: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    moments: Sequence[Moment] = ()
    datasets: Sequence[DatasetInput] = ()
    artifacts: Sequence[Path] = ()
    children: Sequence[RunContent] = ()
    renames: bool = True


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields (dotted name, text) for every setting."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def git_commit() -> str | None:
    """Returns the commit checked out here; null outside of a Git checkout."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None
