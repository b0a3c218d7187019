"""Are the pairs of a shadow those of its traffic, or of the part that happened to be copied?

A copy that was to be made and got no reply leaves no row, and takes the baseline's row along. So
rows cannot show a mirror that is mute; the router's spool can. Where fewer than half of the copies
have a reply the decision is held, as flows hold it by what the router says of itself. It is no
INVALID: what is there is sound, and harm in it counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from specdecode.governance.ladder_facts import LEAST_SENT
from specdecode.governance.live.rows import LiveRows
from specdecode.governance.plan_schema import Plan
from specdecode.governance.plan_stages import Stage
from specdecode.governance.verdict import Outcome, RuleResult


def without_reply(
    plan: Plan, stage: Stage, rows: LiveRows, unanswered: Mapping[str, int]
) -> RuleResult | None:
    """An entry that holds the decision; None where nothing speaks against the rows.

    Args:
        plan: a view of the stage.
        stage: that is judged.
        rows: of it.
        unanswered: copies that were to be made and have no reply, by why.
    """
    lost = sum(unanswered.values())
    if stage.name != "shadow" or not lost:
        return None
    replies = int((rows.texts["arm"] == plan.candidates[0]).sum())
    total = lost + replies
    if replies / total >= LEAST_SENT:
        return None
    why = ", ".join(f"{count}: {said}" for said, count in sorted(unanswered.items()))
    return RuleResult(
        name="integrity/copies",
        kind="integrity",
        role="integrity",
        outcome=Outcome.INSUFFICIENT,
        reason=(
            f"of {total} requests that were to be copied, only {replies} have a reply of the copy "
            f"({why}); the pairs are a part of the traffic, and nobody chose which"
        ),
        remedy="see health.mirror in GET /rollout for why copies are not made, and mend that",
        n=replies,
    )
