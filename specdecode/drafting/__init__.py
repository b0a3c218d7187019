"""Drafters propose tokens and state the law each was drawn from."""

from __future__ import annotations

from specdecode.drafting.base import Drafter, Proposal, Sampler
from specdecode.drafting.registry import (
    check_same_vocabulary,
    drafting_network,
    make_drafter,
    scoring_network,
)

__all__ = [
    "Drafter",
    "Proposal",
    "Sampler",
    "check_same_vocabulary",
    "drafting_network",
    "make_drafter",
    "scoring_network",
]
