"""What every test gets: quiet tools, and threads only where a model is large enough for them."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")


@pytest.fixture(autouse=True)
def _threads(request):
    """One thread for tiny models, where waking a second costs more than it computes."""
    import torch

    before = torch.get_num_threads()
    if request.node.get_closest_marker("real_model") is None:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
