from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pipelines.stages import command
from specdecode.errors import ConfigError, EngineError


def ending(error: BaseException | None) -> int:
    def stage() -> None:
        if error is not None:
            raise error

    with pytest.raises(SystemExit) as caught:
        command.run(stage)
    return int(caught.value.code or 0)


def test_a_stage_that_ends_well_exits_with_0() -> None:
    assert ending(None) == 0


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (ConfigError("threads must be 1 or more"), 2, "error: threads must be 1 or more"),
        (EngineError("row 3 is NaN"), 1, "row 3 is NaN"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, "No space left on device", "rows.jsonl"), 1, "the disk is full"),
    ],
)
def test_what_a_person_can_fix_is_told_in_one_line_without_a_trace(
    error: BaseException, status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(error) == status

    printed = capsys.readouterr().err
    assert told in printed
    assert "Traceback" not in printed
    assert printed.count("\n") == 1


def test_a_fault_of_the_program_keeps_its_trace() -> None:
    with pytest.raises(ZeroDivisionError):
        command.run(lambda: 1 / 0)


def test_json_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.json"
    command.write_json(path, {"speed": 1.5})

    with pytest.raises(ValueError, match="not JSON compliant"):
        command.write_json(path, {"speed": float("nan")})

    assert command.read_json(path) == {"speed": 1.5}
    assert [entry.name for entry in path.parent.iterdir()] == ["result.json"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [(None, "is missing"), ("- a\n", "must hold a mapping"), ("a: [", "not valid YAML")],
)
def test_bad_parameters_are_named(tmp_path: Path, text: str | None, problem: str) -> None:
    path = tmp_path / "params.yaml"
    if text is not None:
        path.write_text(text)

    with pytest.raises(ConfigError, match=problem):
        command.parameters(path)
