"""External engines for tests: started where they are installed, else the test is skipped.

`SPECDECODE_EXTERNAL` names engines whose tests must not be skipped, as `.ci/run` does.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.external.environments import HOME, find_environment, how_to_install
from pipelines.external.models import prepare

ROOT = Path(__file__).resolve().parents[2]
REQUIRED = "SPECDECODE_EXTERNAL"
THREADS = 1
"""Two threads that wait for each other spin; on a machine with other work that takes minutes."""


@pytest.fixture(scope="session")
def installed():
    """Gives the environment of an engine, or says why the test does not run."""

    def find(name):
        folder = find_environment(name, ROOT / HOME)
        if folder is None:
            reason = f"{name} is not installed: {how_to_install(name)}"
            if name in os.environ.get(REQUIRED, "").split():
                pytest.fail(f"{reason} ({REQUIRED} says that its tests must run)")
            pytest.skip(reason)
        return folder

    return find


@pytest.fixture(scope="session")
def models():
    return prepare(home=ROOT / HOME / "models")
