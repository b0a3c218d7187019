"""Energy by the counters of this machine: RAPL for processors, NVML's total for GPUs.

The counters are of the whole machine: everything that ran on it is in them, the load client too. No
counter means "not measured".
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
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


class Meter:
    """Adds up what the counters say, from now on.

    Args:
        read: reads them.
    """

    def __init__(self, read: Callable[[], Reading] = read_counters) -> None:
        self._read, self._last = read, read()
        self._joules = dict.fromkeys(self._last.counters, 0.0)

    def update(self) -> None:
        """Read them again; to be done before one can wrap twice, which takes minutes."""
        now = self._read()
        used = joules_between(self._last, now)
        self._joules = {
            name: old + used[name] for name, old in self._joules.items() if name in used
        }
        self._last = now

    def total(self) -> dict[str, Any]:
        """Joules in all and by counter, and of what; None where there is no counter."""
        return {
            "joules": sum(self._joules.values()) if self._joules else None,
            "by_counter": dict(self._joules),
            "scope": "this whole machine"
            if self._joules
            else "not measured: no energy counter can be read",
        }


def joules_between(before: Reading, after: Reading) -> dict[str, float]:
    """Joules by counter.

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
    return joules
