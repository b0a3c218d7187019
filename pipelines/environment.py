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
INSTRUCTIONS = frozenset(
    {"avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_bf16", "avx512_vnni"}
    | {"amx_bf16", "amx_int8", "asimd", "bf16", "i8mm", "sve", "sve2"}
)
"""Flags of processors by which kernels are chosen, and the precision that `auto` takes."""
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
            "instructions": _instructions(),
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
    here = _cpu_facts()
    for name in ("model name", "Model", "Hardware"):
        if name in here:
            return here[name]
    asked = _output("sysctl", "-n", "machdep.cpu.brand_string")
    return asked or platform.processor() or platform.machine()


def _instructions() -> list[str]:
    """Virtual machines tell the same model name for processors of unlike abilities."""
    here = _cpu_facts()
    flags = here.get("flags", here.get("Features", ""))
    return sorted(INSTRUCTIONS.intersection(flags.split()))


def _cpu_facts() -> dict[str, str]:
    """What Linux tells of the processor; of the first one, where there are several."""
    found: dict[str, str] = {}
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return found
    for line in told.splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), " ".join(value.split()))
    return found


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
