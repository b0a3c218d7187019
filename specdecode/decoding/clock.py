"""The clock behind every reported second."""

from __future__ import annotations

import time

import torch


def now(device: torch.device) -> float:
    """Clock reading in seconds once the device has really done what was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
