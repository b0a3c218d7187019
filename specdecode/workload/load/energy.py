"""Energy by the counters of this machine: RAPL for processors, NVML's total for GPUs.

The counters are of the whole machine: everything that ran on it is in them, the load client too. No
counter means "not measured".
"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

RAPL: Final = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Reading:
    """Counters at one time, by name: (value in µJ, value at which it starts again from 0)."""

    counters: dict[str, tuple[int, int]]


def read_counters(rapl: Path = RAPL) -> Reading:
    """All counters that can be read now; often none, as reading them takes rights."""
    counters: dict[str, tuple[int, int]] = {}
    for domain in sorted(rapl.glob("intel-rapl:[0-9]*")):
        if domain.name.count(":") != 1:  # a part of a package is in the package's counter
            continue
        with contextlib.suppress(OSError, ValueError):
            name = (domain / "name").read_text().strip()
            value = int((domain / "energy_uj").read_text())
            wraps = int((domain / "max_energy_range_uj").read_text())
            counters[f"{domain.name} {name}"] = (value, wraps)
    counters.update(_gpus())
    return Reading(counters)


def _gpus() -> dict[str, tuple[int, int]]:
    """Millijoules since the driver was loaded, of every GPU; needs the package pynvml."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001 - no package, no driver, no GPU: all of them mean no counter
        return {}
    found: dict[str, tuple[int, int]] = {}
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            with contextlib.suppress(nvml.NVMLError):  # older GPUs do not count
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                millijoules = int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
                found[f"gpu {index}"] = (millijoules * 1000, 0)
    finally:
        nvml.nvmlShutdown()
    return found


def between(before: Reading, after: Reading) -> dict[str, Any]:
    """Joules by counter, and how they were measured; None where there is no counter.

    A counter that wrapped once is corrected; one that went back otherwise is left out.
    """
    joules: dict[str, float] = {}
    for name, (start, wraps) in before.counters.items():
        if name not in after.counters:
            continue
        used = after.counters[name][0] - start
        if used < 0 and wraps > 0:
            used += wraps
        if used >= 0:
            joules[name] = used / 1e6
    return {
        "joules": sum(joules.values()) if joules else None,
        "by_counter": joules,
        "scope": "this whole machine" if joules else "not measured: no energy counter can be read",
    }
