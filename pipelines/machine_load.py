"""How busy the machine was while an evaluation ran: processor, memory, and GPUs where there are.

A timing is only as good as the quiet it was taken in. The load is read beside `dvc repro`, from
another process than the one that measures, and kept in the workspace; the run of a stage shows what
was read while its rows were made. Names are those of MLflow's own system metrics.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

LOG = Path(".specdecode/system.jsonl")
EVERY_S = 5.0
"""Reading takes a few milliseconds of a core; with a GPU, one call of nvidia-smi (about 50 ms)."""
MOST_LINES = 20_000
_MIB = 2**20
_GPU_FIELDS = {
    "utilization.gpu": "utilization_percentage",
    "memory.used": "memory_usage_megabytes",
    "power.draw": "power_usage_watts",
}


@dataclass(frozen=True)
class Moment:
    """Numbers read at one time.

    Attributes:
        at_ms: Unix time in milliseconds.
        step: 0 for the first.
        values: by name.
    """

    at_ms: int
    step: int
    values: Mapping[str, float]


@contextlib.contextmanager
def watched(path: Path, every_s: float = EVERY_S) -> Iterator[None]:
    """While open, appends a reading every few seconds; a failure to read never comes out.

    Args:
        path: the log; its older half is dropped when it has grown long.
        every_s: seconds between two readings.
    """
    ended = threading.Event()
    reader = threading.Thread(target=_read_until, args=(ended, path, every_s), daemon=True)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join(timeout=every_s)


def reading(gpus: str = "") -> dict[str, float]:
    """Returns the load since the last call.

    Args:
        gpus: what nvidia-smi printed, one line a GPU; empty where there is none.
    """
    memory = psutil.virtual_memory()
    values = {
        "system/cpu_utilization_percentage": psutil.cpu_percent(),
        "system/system_memory_usage_megabytes": (memory.total - memory.available) / _MIB,
        "system/system_memory_usage_percentage": float(memory.percent),
    }
    for number, line in enumerate(gpus.splitlines()):
        for name, text in zip(_GPU_FIELDS.values(), line.split(","), strict=False):
            with contextlib.suppress(ValueError):  # "[N/A]": this GPU does not tell
                values[f"system/gpu_{number}_{name}"] = float(text)
    return values


def between(path: Path, first_s: float, last_s: float) -> list[Moment]:
    """Returns the readings of a span of time; none where nothing was read.

    Args:
        path: the log.
        first_s: Unix time it begins.
        last_s: Unix time it ends.
    """
    found = [(at, values) for at, values in _readings(path) if first_s <= at <= last_s]
    return [Moment(round(at * 1000), step, values) for step, (at, values) in enumerate(found)]


def _read_until(ended: threading.Event, path: Path, every_s: float) -> None:
    # A full disk is told by those who need it.
    with contextlib.suppress(OSError, psutil.Error):
        path.parent.mkdir(parents=True, exist_ok=True)
        _shorten(path)
        gpu = bool(_gpus())
        reading()  # the first one has nothing to compare with
        while not ended.wait(every_s):
            line = json.dumps({"at": time.time(), "values": reading(_gpus() if gpu else "")})
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


def _gpus() -> str:
    query = f"--query-gpu={','.join(_GPU_FIELDS)}"
    try:
        done = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _shorten(path: Path) -> None:
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if len(lines) > MOST_LINES:
        path.write_text("".join(lines[-MOST_LINES // 2 :]), encoding="utf-8")


def _readings(path: Path) -> Iterator[tuple[float, Mapping[str, float]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a line cut short by a crash
            document = json.loads(line)
            yield float(document["at"]), document["values"]
