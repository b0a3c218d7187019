"""Plans, and the decision they lead to."""

from specdecode.governance.decide import decide
from specdecode.governance.plan import Plan, load_plan, parse_plan, plan_sha256
from specdecode.governance.seal import PLAN_ENTRY, sealed_sha256
from specdecode.governance.verdict import EXIT_CODES, Outcome, RuleResult, Status, Verdict

__all__ = [
    "EXIT_CODES",
    "PLAN_ENTRY",
    "Outcome",
    "Plan",
    "RuleResult",
    "Status",
    "Verdict",
    "decide",
    "load_plan",
    "parse_plan",
    "plan_sha256",
    "sealed_sha256",
]
