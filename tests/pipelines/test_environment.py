from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from pipelines import environment


def test_it_is_the_same_every_time_on_an_unchanged_machine() -> None:
    assert environment.describe(2) == environment.describe(2)


def test_thread_settings_are_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    base = environment.describe(None)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")

    assert environment.describe(None) != base
    assert environment.describe(1)["threads"]["setting"] == 1


def test_library_versions_are_those_installed_and_null_when_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "LIBRARIES", ("torch", "no-such-package"))

    libraries = environment.describe(None)["libraries"]

    assert libraries == {"torch": metadata.version("torch"), "no-such-package": None}


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert environment.describe(None)["hardware"]["gpus"] == []


def test_instructions_tell_apart_what_one_model_name_covers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = []
    for flags in ("fpu avx2 sse4_2", "fpu avx2 avx512f avx512bw amx_bf16"):
        (tmp_path / "cpuinfo").write_text(
            f"processor\t: 0\nmodel name\t: AMD  EPYC\nflags\t\t: {flags}\n\nprocessor\t: 1\n"
        )
        monkeypatch.setattr(environment, "Path", lambda _: tmp_path / "cpuinfo")
        found.append(environment.describe(None)["hardware"])

    assert [each["cpu"] for each in found] == ["AMD EPYC"] * 2
    assert found[0]["instructions"] == ["avx2"]
    assert found[1]["instructions"] == ["amx_bf16", "avx2", "avx512bw", "avx512f"]
