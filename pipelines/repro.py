"""Runs `dvc repro` as a subprocess: one at a time in a workspace, in the right environment.

DVC has no public call for it. Its own lock gives up after three seconds (dvc#3783) and two runs in
one workspace collide at their start and end (dvc#10465), so whoever comes second waits here.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from pipelines.console import say
from pipelines.machine_load import LOG, watched

INTERRUPTED = 130
LOCK = Path(".specdecode/evaluate.lock")
# Another program's plain `dvc repro` may hold the workspace; how often a refused run is tried
# again.
ATTEMPTS = 60
# How long what was told to end may take for it.
PATIENCE_S = 10


@contextlib.contextmanager
def alone_in(workspace: Path) -> Iterator[None]:
    """Holds the workspace for one evaluation; a second one waits for its turn, with jitter.

    The lock is the kernel's, so it is free again when its holder dies, however it dies.
    """
    path = workspace / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    say(f"Another evaluation is running in {workspace}; waiting for it to end …")
                    told = True
                _pause()
        yield


def run(
    workspace: Path,
    *,
    tracked_in: Path | None = None,
    stages: Sequence[str] = (),
    options: Sequence[str] = (),
    on_line: Callable[[str], None] | None = None,
) -> int:
    """Runs `dvc repro` in `workspace`, with its output going where ours goes.

    Args:
        workspace: a folder with a dvc.yaml.
        tracked_in: the folder whose MLflow store takes the results; null for the workspace itself.
        stages: names of stages; empty for all.
        options: further options of `dvc repro`.
        on_line: takes each line of output; null lets output go where ours goes, terminal and all.

    Returns:
        0, or DVC's exit status, or 130 after an interruption.
    """
    command = [*dvc(), "--wait-for-lock", "repro", *options, *stages]
    for attempt in range(ATTEMPTS):
        # Whoever refused the call may have ended by the time it has failed, so ask before it too.
        held = _held_by_another(workspace)
        with watched(workspace / LOG):
            status = _call(command, workspace, _environment(tracked_in or workspace), on_line)
        if status in (0, INTERRUPTED) or not (held or _held_by_another(workspace)):
            return status
        if attempt == 0:
            say("Another DVC run holds files of this workspace; waiting for it to end …")
        _pause()
    return status


def call(
    command: Sequence[str],
    workspace: Path,
    on_line: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> int:
    """Runs another command in `workspace` and returns its status; it ends when this call does.

    Args:
        command: program and arguments.
        workspace: where it runs.
        on_line: takes each line of its output.
        environment: its variables; null for those a stage has.
    """
    return _call(command, workspace, dict(environment or _environment(workspace)), on_line)


def is_due(workspace: Path, stage: str) -> bool:
    """Tells whether a stage would run: an input, its command or an output is not as it was.

    Raises:
        RuntimeError: DVC cannot tell.
    """
    done = subprocess.run(
        [*dvc(), "status", "--json", stage],
        cwd=workspace,
        env=_environment(workspace),
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return bool(json.loads(done.stdout))
    except ValueError as error:
        raise RuntimeError(f"`dvc status {stage}` failed: {done.stderr.strip()}") from error


def dvc() -> list[str]:
    """Returns the command that starts the locked DVC."""
    return [sys.executable, "-m", "dvc"]


def stages_in_order(workspace: Path) -> list[str]:
    """Returns the stages of dvc.yaml so that each comes after those whose outputs it reads."""
    stages = yaml.safe_load((workspace / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    writes = {
        name: set(_paths(stage, ("outs", "metrics", "plots"))) for name, stage in stages.items()
    }
    reads = {name: set(_paths(stage, ("deps", "params"))) for name, stage in stages.items()}
    done: list[str] = []
    while len(done) < len(stages):
        pending = [name for name in stages if name not in done]
        ready = [
            name
            for name in pending
            if not any(_touches(reads[name], writes[other]) for other in pending if other != name)
        ]
        if not ready:
            raise ValueError(f"the stages {', '.join(pending)} of dvc.yaml wait for one another")
        done.extend(ready)
    return done


def _touches(reads: set[str], writes: set[str]) -> bool:
    return any(
        read == written or read.startswith(written + "/") or written.startswith(read + "/")
        for read in reads
        for written in writes
    )


def _paths(stage: dict[str, Any], kinds: Sequence[str]) -> Iterator[str]:
    for kind in kinds:
        for entry in stage.get(kind) or ():
            yield next(iter(entry)) if isinstance(entry, dict) else entry


def _call(
    command: Sequence[str],
    workspace: Path,
    environment: dict[str, str],
    on_line: Callable[[str], None] | None,
) -> int:
    pipe = subprocess.PIPE if on_line else None
    child = subprocess.Popen(
        command,
        cwd=workspace,
        env=environment,
        text=True,
        errors="replace",
        stdout=pipe,
        stderr=subprocess.STDOUT if on_line else None,
    )
    try:
        if on_line and child.stdout:
            for line in child.stdout:
                on_line(line.rstrip())
        return child.wait()
    except KeyboardInterrupt:
        # The terminal sent the signal to the child as well; it stops its stage on its own.
        child.wait()
        return INTERRUPTED
    except BaseException:
        _end(child)
        raise


def _end(child: subprocess.Popen[str]) -> None:
    """Ends DVC and the stage under it, which would else go on measuring for nobody."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(child.pid)
        parent.suspend()  # it must not start the next stage while its children are counted
        family = [parent, *parent.children(recursive=True)]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.terminate()
        with contextlib.suppress(psutil.NoSuchProcess):
            parent.resume()
        for member in psutil.wait_procs(family, timeout=PATIENCE_S)[1]:
            member.kill()
    child.wait()


def _environment(tracked_in: Path) -> dict[str, str]:
    environment = dict(os.environ)
    here = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join([here, environment.get("PATH", os.defpath)])
    environment.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{tracked_in.resolve()}/mlflow.db")
    environment.setdefault("SPECDECODE_MLFLOW_ARTIFACTS", str(tracked_in.resolve() / "mlartifacts"))
    return environment


def _held_by_another(workspace: Path) -> bool:
    """Tells whether a living process is registered as user of files of the workspace."""
    try:
        held = json.loads((workspace / ".dvc/tmp/rwlock").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    holders = list(held.get("write", {}).values())
    holders += [reader for readers in held.get("read", {}).values() for reader in readers]
    return any(_alive(holder.get("pid")) for holder in holders)


def _alive(pid: object) -> bool:
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _pause() -> None:
    time.sleep(random.uniform(0.5, 2.0))  # noqa: S311 - jitter, not a secret
