"""The states a release goes through on its way to all users, as a plan has them."""

from __future__ import annotations

from dataclasses import dataclass

from specdecode.governance.ladder_facts import Place
from specdecode.governance.plan_schema import Plan
from specdecode.rollout.state import Mode, RolloutState


@dataclass(frozen=True)
class Rung:
    """A state of the router on the way up."""

    mode: Mode
    share: float

    def __str__(self) -> str:
        return f"canary {self.share:g}" if self.mode == "canary" else self.mode


def rungs(plan: Plan, shadow_share: float = 1.0) -> list[Rung]:
    """The states a release goes through, in order; the last has all users."""
    found: list[Rung] = []
    for stage in plan.whole.stages:
        if stage.name == "shadow":
            found.append(Rung("shadow", shadow_share))
        elif stage.name == "canary":
            found += [Rung("canary", share) for share in stage.steps or []]
    if found or any(stage.name == "watch" for stage in plan.whole.stages):
        found.append(Rung("full", 1.0))
    return found


def at(state: RolloutState) -> Rung:
    """Where a router is."""
    return Rung(state.mode, state.share)


def height(plan: Plan, state: RolloutState) -> int | None:
    """How many rungs a router has climbed: 0 for off; None where it is on none of them.

    A shadow copies any share of the requests.
    """
    if state.mode == "off":
        return 0
    ladder = rungs(plan, state.share)
    own = at(state)
    return ladder.index(own) + 1 if own in ladder else None


def exposure(mode: Mode, share: float) -> float:
    """The share of users whose replies come from the candidate; none in a shadow."""
    return share if mode in ("canary", "full") else 0.0


def place_of(plan: Plan, state: RolloutState) -> Place | None:
    """The stage and step whose verdict the next move needs; None where no verdict is needed.

    With the router off that is the last stage before users, unless a shadow comes next: a shadow
    shows users nothing new.
    """
    if state.stage is not None:
        return Place(state.stage, state.step)
    names = [stage.name for stage in plan.whole.stages]
    before = [stage.name for stage in plan.whole.stages if not stage.live]
    return Place(before[-1]) if before and "shadow" not in names else None


def owner_for(plan: Plan, recovery: str) -> str:
    """Who acts: the owner of the plan's stop condition with that recovery, else of the plan."""
    named = (c.owner for c in plan.stop_conditions if c.recovery == recovery and c.owner)
    return next(named, plan.owner)


def steps_up_to(plan: Plan, place: Place) -> list[str]:
    """The steps a verdict must speak of: each one that users have seen."""
    if place.step is None:
        return []
    steps = [step for stage in plan.whole.stages for step in stage.steps or []]
    return [f"{step:g}" for step in steps if step <= float(place.step)]
