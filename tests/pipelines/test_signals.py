"""Commands that start servers: a TERM ends them by way of what stops the servers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("pipelines.soak.__main__", "pipelines.soak.__main__.run_soak", []),
        ("pipelines.external.__main__", "pipelines.external.models.prepare", ["models"]),
    ],
)
def test_a_term_is_an_interruption_and_no_sudden_end(module, name, words, tmp_path):
    program = f"""
import importlib, os, signal, sys, time
from unittest.mock import patch
def terminated(*_):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    finally:
        print("cleaned up")
main = importlib.import_module({module!r}).main
sys.argv = ["x", *{words!r}]
with patch({name!r}, terminated):
    sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 130, done.stderr
    assert done.stdout == "cleaned up\n"
    assert "Interrupted" in done.stderr
