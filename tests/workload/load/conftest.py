"""A server on loopback, and a short way to run load against it."""

from __future__ import annotations

import pytest

from specdecode.workload.load import LoadSpec, run_load
from tests.workload.load.fake_server import Running


@pytest.fixture
def running():
    server = Running()
    yield server
    server.close()


@pytest.fixture
def fake(running):
    return running.fake


@pytest.fixture
def load(fake, tmp_path):
    """Run a load against the fake server: load(behaviour, **spec) -> LoadResult."""
    folders = iter(tmp_path / f"run{number}" for number in range(100))

    def run(behaviour=None, *, api_key=None, show=None, engine=None, **changes):
        values = {
            "url": fake.url,
            "model": "toy",
            "concurrency": 2,
            "requests": 6,
            "input_tokens": 8,
            "warm_up": 0,
            "extra_body": {"behaviour": behaviour or {}},
        }
        return run_load(
            LoadSpec(**values | changes), next(folders), api_key=api_key, show=show, engine=engine
        )

    return run
