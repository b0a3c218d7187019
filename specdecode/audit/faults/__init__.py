"""Planted faults: small named ways to break a correct engine, for which the audit is to have teeth.

catalogue      every fault by name
fault          what a fault is, and how it is planted in an engine
rule_faults    verification: acceptance, counting, resampling
draft_faults   the draft: what it draws from and what it states
target_faults  the target: parameters at verified positions, and its cache
parts          a rule in three parts, of which one is broken
distance       how far the broken engine's law is from the target's, by enumeration
"""

from __future__ import annotations

from specdecode.audit.faults.catalogue import FAULTS, NO_FAULT, find_fault
from specdecode.audit.faults.fault import Fault, PlantedEngine, plant

__all__ = ["FAULTS", "NO_FAULT", "Fault", "PlantedEngine", "find_fault", "plant"]
