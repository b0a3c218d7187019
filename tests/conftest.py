"""What every test gets: quiet tools, and threads only where a model is large enough for them."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")
# Without an address Prefect starts a server of its own, which outlives the tests. Whoever needs one
# starts it and ends it: `prefect_test_harness`, or `running_server` in pipelines/prefect_server.py.
os.environ["PREFECT_SERVER_ALLOW_EPHEMERAL_MODE"] = "false"
# Events take no notice of that, and start one unless there is a key (prefect.events.worker, 3.9).
os.environ["PREFECT_API_KEY"] = "of-no-server"

# How long an example takes is a matter of the machine: one stall is no failure of what is tested.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _threads(request):
    """One thread for tiny models, where waking a second costs more than it computes."""
    import torch

    before = torch.get_num_threads()
    if request.node.get_closest_marker("real_model") is None:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
