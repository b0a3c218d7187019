"""A bundle that is GO, and a place without the project to check it from."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.governance.bundles import good


@pytest.fixture
def path(tmp_path):
    return good().write(tmp_path)


@pytest.fixture
def stranger(tmp_path_factory):
    """A place where the project is not: runs the verifier with a bare interpreter."""
    folder = tmp_path_factory.mktemp("elsewhere")

    def run_there(program, *arguments):
        return subprocess.run(
            [sys.executable, "-I", "-S", str(program), *map(str, arguments)],
            cwd=folder,
            env={"PATH": os.defpath},
            capture_output=True,
            text=True,
            check=False,
        )

    return run_there
