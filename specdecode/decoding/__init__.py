"""Decoding: sampling parameters to laws, the five-stage loop, the engine around it."""

from __future__ import annotations

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
