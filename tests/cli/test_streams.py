"""What the shell does to the standard streams of a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "specdecode"]
FULL = Path("/dev/full")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("version",), 0),
        (("plan", "check", "plans/default.yaml", "--json"), 0),
        (("plan", "check", "no-such-plan.yaml", "--json"), 2),
    ],
)
def test_a_reader_that_left_changes_neither_exit_code_nor_messages(arguments, code):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as out:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )

    assert done.returncode == code
    assert len(done.stderr.splitlines()) == (1 if code else 0)


@pytest.mark.skipif(not FULL.exists(), reason="the system has no full device")
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_full_disk_is_one_line_and_a_failure(as_json):
    with FULL.open("wb") as out:
        done = subprocess.run(
            [*COMMAND, "version", *as_json],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "standard output cannot be written" in done.stderr


def test_text_that_the_terminal_cannot_show_is_escaped(tmp_path):
    plan = tmp_path / "é.yaml"
    plan.write_text(Path("plans/default.yaml").read_text("utf-8"), "utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(
        [*COMMAND, "plan", "check", str(plan)], capture_output=True, env=environment, check=False
    )

    assert done.returncode == 0
    assert b"\\xe9.yaml: valid" in done.stdout


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_pipe_is_no_terminal_even_where_colour_is_forced(as_json):
    environment = {**os.environ, "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}
    command = ["plan", "power", "plans/default.yaml", "--runs", "1", *as_json]
    done = subprocess.run(
        [*COMMAND, *command], capture_output=True, env=environment, text=True, check=True
    )

    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert not as_json or json.loads(done.stdout)["scenarios"]
