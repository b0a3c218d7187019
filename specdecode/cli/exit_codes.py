"""Exit codes other than those of a verdict, which `Verdict.exit_code` defines."""

from __future__ import annotations

from typing import Final

GO: Final = 0
ENGINE_FAILED: Final = 1
USAGE: Final = 2
TAMPERED: Final = 3
NO_GO: Final = 10
INCONCLUSIVE: Final = 11
INVALID: Final = 12
INTERRUPTED: Final = 130

BY_AUDIT_VERDICT: Final = {"lossless": GO, "biased": NO_GO, "undecided": INCONCLUSIVE}
"""Audit verdict to exit code, on the same scale as a verdict's."""
