"""Does a command exist as it is written? Each is put to the program's own parser, and not run."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from typer.exceptions import Exit, TyperException
from typer.main import get_command

from specdecode.cli.app import app
from tests.docs.commands import ROOT

PYTHON = ("python", "python3", ".venv/bin/python")


def fault(words: Sequence[str], scratch: Path) -> str | None:
    """What is wrong with the command, or None if it can be run as it is written.

    Args:
        words: program and arguments.
        scratch: an empty folder.

    Raises:
        LookupError: the program is none of this project's, so nothing here can tell.
    """
    program, *rest = words
    if program in ("specdecode", ".venv/bin/specdecode"):
        return _typer(rest)
    if program in PYTHON and rest[:1] == ["-m"]:
        module, *arguments = rest[1:]
        if module == "specdecode":
            return _typer(arguments)
        if module.startswith(("pipelines", "tests")):
            return _module(module, arguments)
    if program == "make":
        return _make(rest, scratch)
    raise LookupError(program)


def _typer(words: list[str]) -> str | None:
    command, parent, path = get_command(app), None, "specdecode"
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            while True:
                context = command.make_context(path, list(words), parent=parent)
                with context:
                    inside = getattr(command, "commands", None)
                    if inside is None:
                        return None
                    left = [*context._protected_args, *context.args]
                    if not left and command.invoke_without_command:
                        return None
                    name, command, words = command.resolve_command(context, left)
                path, parent = name, context
    except Exit:
        return None if shown.getvalue() else "ends without a word"
    except TyperException as error:
        return str(error.format_message()) if hasattr(error, "format_message") else str(error)


class _Parsed(BaseException):
    """The arguments were accepted: time to stop, before anything is done."""


def _module(name: str, arguments: list[str]) -> str | None:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        found = None
    if found is not None and found.submodule_search_locations:
        found = importlib.util.find_spec(f"{name}.__main__")
    if found is None or found.origin is None:
        return f"there is no module {name} that can be run"
    if "parse_args(" not in Path(found.origin).read_text(encoding="utf-8"):
        return f"{name} takes no arguments" if arguments else None

    original, before = argparse.ArgumentParser.parse_args, sys.argv
    message = io.StringIO()

    def parse(self, given=None, namespace=None):
        original(self, given, namespace)
        raise _Parsed

    argparse.ArgumentParser.parse_args, sys.argv = parse, [name, *arguments]
    try:
        with (
            contextlib.redirect_stderr(message),
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", RuntimeWarning)  # the module is imported already
            runpy.run_module(name, run_name="__main__")
    except _Parsed:
        return None
    except SystemExit as ended:
        return None if ended.code == 0 else message.getvalue().strip()
    finally:
        argparse.ArgumentParser.parse_args, sys.argv = original, before
    return f"{name} did not read its arguments"


def _make(arguments: list[str], scratch: Path) -> str | None:
    """Ask make what it would do, and put what it would start to the parsers above."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for argument in arguments:
        name, given, _ = argument.partition("=")
        if given and f"$({name})" not in makefile:
            return f"the Makefile has no variable {name}"
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, scratch / name)
    done = subprocess.run(
        ["make", "--dry-run", *arguments], cwd=scratch, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return done.stderr.strip()
    for line in done.stdout.replace("\\\n", " ").splitlines():
        words = shlex.split(re.split(r"\|\||>", line)[0]) if ".venv/bin/python' -m" in line else []
        words = words[next((i for i, w in enumerate(words) if w.startswith(".venv")), 0) :]
        if words[1:2] == ["-m"] and words[2].startswith(("specdecode", "pipelines", "tests.")):
            wrong = fault(words, scratch)
            if wrong is not None:
                return wrong
    return None
