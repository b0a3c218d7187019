"""Losslessness of recorded outputs: does every token follow the target's own distribution?"""

from __future__ import annotations

from specdecode.audit.report import AuditReport
from specdecode.audit.run import audit, audit_arms, audit_records

__all__ = ["AuditReport", "audit", "audit_arms", "audit_records"]
