"""Speculative decoding, measured and governed.

The public names are imported on first use, so that a command that never decodes does not pay for
torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdecode.decoding import Engine, GenerationResult, SamplingParams

__version__ = "0.1.0"

__all__ = ["Engine", "GenerationResult", "SamplingParams", "__version__"]


def __getattr__(name: str) -> Any:
    if name in ("Engine", "GenerationResult", "SamplingParams"):
        return getattr(importlib.import_module("specdecode.decoding"), name)
    raise AttributeError(f"module 'specdecode' has no attribute '{name}'")
