"""Reads a plan for mistakes that a schema cannot see. A new lint is one line of its file.

Nothing here measures or simulates: every lint is a look at the plan alone.
"""

from __future__ import annotations

from specdecode.governance.lints import (
    coverage,
    gain,
    live,
    looks,
    lossy,
    recovery,
    size,
    thresholds,
)
from specdecode.governance.lints.base import Finding, Lint
from specdecode.governance.plan_schema import Plan

LINTS: tuple[Lint, ...] = (
    *gain.LINTS,
    *lossy.LINTS,
    *thresholds.LINTS,
    *recovery.LINTS,
    *size.LINTS,
    *coverage.LINTS,
    *live.LINTS,
    *looks.LINTS,
)


def lint(plan: Plan) -> list[Finding]:
    """What is wrong with the plan, errors first."""
    findings = [finding for entry in LINTS for finding in entry.findings(plan)]
    return sorted(findings, key=lambda finding: finding.severity != "error")
