"""What timings depend on besides the code: hardware class, library versions, thread settings.

Nothing that changes by itself (load, clock speed, free memory, host name) enters, because a change
of this description means that everything is measured again.
"""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

LIBRARIES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "gguf",
    "accelerate",
    "numpy",
    "scipy",
    "pyarrow",
    "pydantic",
)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def describe(threads: int | None) -> dict[str, Any]:
    """Returns the description.

    Args:
        threads: the thread setting of params.yaml; null when it is left to torch.
    """
    return {
        "schema": "specdecode.environment/1",
        "hardware": {
            "cpu": _cpu_model(),
            "cores": _cores(),
            "memory_gib": _memory_gib(),
            "gpus": _gpus(),
        },
        "system": {"name": platform.system(), "machine": platform.machine()},
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "threads": {
            "setting": threads,
            **{name.lower(): os.environ.get(name) for name in THREAD_VARIABLES},
        },
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "Hardware"):
                return " ".join(value.split())
    except OSError:
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    return platform.processor() or platform.machine()


def _cores() -> int | None:
    """Cores this process may use, which is fewer than the machine's under a CPU set."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _gpus() -> list[str]:
    """Names of NVIDIA devices, asked of the driver because importing torch would take seconds."""
    listing = _output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    return sorted(line.strip() for line in listing.splitlines() if line.strip())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
