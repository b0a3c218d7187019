"""One ledger of the chance of a false GO, over all stages on the way to users.

A change that should not go live may get a false GO at each stage; the chance that it gets one at
any of them is at most the sum. Watch comes after the decision and has no share in it.
"""

from __future__ import annotations

from fractions import Fraction

from specdecode.governance.plan_schema import Plan
from specdecode.statistics.multiplicity import AlphaLedger, exact


def false_go_ledger(plan: Plan) -> AlphaLedger:
    """What each stage spends, of `alpha_total` or, without it, of what they spend together.

    Raises:
        ConfigError: they spend more than that, or as much as 1.
    """
    levels: dict[str, Fraction] = {
        stage.name: exact(stage.alpha) for stage in plan.stages if stage.name != "watch"
    }
    if plan.alpha_total is not None:
        total = exact(plan.alpha_total)
    else:
        total = sum(levels.values(), Fraction(0)) or Fraction(1, 2)  # a watch alone spends none
    return AlphaLedger(total, levels)
