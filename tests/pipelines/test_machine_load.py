"""The load of the machine, read beside an evaluation and cut to the time of its rows."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from pipelines import machine_load
from pipelines.machine_load import between, reading, watched


def test_a_reading_has_processor_and_memory_under_the_names_of_mlflow() -> None:
    assert {
        "system/cpu_utilization_percentage",
        "system/system_memory_usage_megabytes",
        "system/system_memory_usage_percentage",
    } == set(reading())


def test_every_gpu_is_read_and_what_it_does_not_tell_is_left_out() -> None:
    values = reading("97, 40210, 612.50\n0, 3, [N/A]\n")

    assert {name: value for name, value in values.items() if "gpu" in name} == {
        "system/gpu_0_utilization_percentage": 97.0,
        "system/gpu_0_memory_usage_megabytes": 40210.0,
        "system/gpu_0_power_usage_watts": 612.5,
        "system/gpu_1_utilization_percentage": 0.0,
        "system/gpu_1_memory_usage_megabytes": 3.0,
    }


def test_readings_go_on_while_it_is_open_and_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_twice = threading.Event()
    calls: list[str] = []

    def counted(gpus: str = "") -> dict[str, float]:
        calls.append(gpus)
        if len(calls) > 3:  # the first call only sets the clock
            read_twice.set()
        return {"x": float(len(calls))}

    monkeypatch.setattr(machine_load, "reading", counted)
    path = tmp_path / "folder/system.jsonl"
    with watched(path, every_s=0.01):
        assert read_twice.wait(60)
    written = path.read_text()

    assert [m.values for m in between(path, 0, 1e12)][:2] == [{"x": 2.0}, {"x": 3.0}]
    assert path.read_text() == written


def test_only_the_span_asked_for_counts_and_a_torn_line_does_not(tmp_path: Path) -> None:
    path = tmp_path / "system.jsonl"
    lines = [json.dumps({"at": at, "values": {"x": at}}) for at in (1.0, 2.0, 3.0, 4.0)]
    path.write_text("\n".join([*lines, '{"at": 3.5, "val']))

    found = between(path, 2.0, 3.6)

    assert [(m.at_ms, m.step, m.values) for m in found] == [
        (2000, 0, {"x": 2.0}),
        (3000, 1, {"x": 3.0}),
    ]


def test_without_a_log_there_are_no_readings(tmp_path: Path) -> None:
    assert between(tmp_path / "none.jsonl", 0, 1e12) == []


def test_a_log_that_grew_long_loses_its_older_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_load, "MOST_LINES", 10)
    path = tmp_path / "system.jsonl"
    path.write_text("".join(f'{{"at": {at}, "values": {{}}}}\n' for at in range(12)))

    with watched(path, every_s=60):
        pass

    assert [m.at_ms for m in between(path, 0, 1e12)] == [7000, 8000, 9000, 10000, 11000]
