"""Arms whose servers are small programs of known speed."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from specdecode.workload.server_process import ServerCommand
from specdecode.workload.sweep import Arm, SweepSpec

ROOT = Path(__file__).parents[3]
SERVER = (sys.executable, "-m", "tests.workload.sweep.cost_server", "--port", "{port}")


@pytest.fixture
def server(monkeypatch):
    """How to start a cost server."""
    monkeypatch.chdir(ROOT)

    def make(k=0, fault=None, scale=0.2):
        fault_of = () if fault is None else ("--fault", fault)
        return ServerCommand(
            [*SERVER, "--k", str(k), "--scale", str(scale), *fault_of], ready_s=240, stop_s=60
        )

    return make


@pytest.fixture
def left_behind():
    """Processes that were started since and are still there.

    Those of before are none of a sweep's: multiprocessing keeps one or two for other tests.
    """
    before = set(psutil.Process().children())
    return lambda: set(psutil.Process().children()) - before


@pytest.fixture
def arms(server):
    """Plain decoding and drafts of two tokens."""
    return [Arm("plain", server()), Arm("k2", server(2), 2, "token", "plain")]


@pytest.fixture
def spec():
    """A sweep that takes seconds."""
    return SweepSpec(concurrency=(1, 3), rounds=2, input_tokens=4, max_tokens=8, warm_up=1)
