"""Decoding: sampling parameters to laws, the five-stage loop, the engine around it.

The names are imported on first use, so that who only states sampling parameters, as a load client
does, does not pay for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from specdecode.decoding.costs import StepCosts
    from specdecode.decoding.engine import Engine, StepEvent
    from specdecode.decoding.logprobs import TokenLogprobs
    from specdecode.decoding.params import SamplingParams
    from specdecode.decoding.result import Acceptance, GenerationResult, Timing
    from specdecode.decoding.trace import StepTrace

__all__ = [
    "Acceptance",
    "Engine",
    "GenerationResult",
    "SamplingParams",
    "StepCosts",
    "StepEvent",
    "StepTrace",
    "Timing",
    "TokenLogprobs",
]

_HOME: Final = {
    "Acceptance": "result",
    "Engine": "engine",
    "GenerationResult": "result",
    "SamplingParams": "params",
    "StepCosts": "costs",
    "StepEvent": "engine",
    "StepTrace": "trace",
    "Timing": "result",
    "TokenLogprobs": "logprobs",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
