"""The way of a change through all stages of its plan, simulated.

The runs of different stages are independent, so the chance of a GO at each in turn is the product
of the stages' chances. It is estimated by walks: walk i takes the i-th run of each stage, in order,
and ends at the first answer other than GO. That is the same number, with an interval of its own.

A watch comes after the change is with all users. It ends no walk, and is simulated beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specdecode.governance.plan_schema import Plan
from specdecode.governance.power import simulate
from specdecode.governance.power_outcome import Chance, Simulation, chances
from specdecode.governance.verdict import Status

AFTERWARDS = "watch"
"""The stage that follows when everything was decided."""


@dataclass(frozen=True)
class Ladder:
    """What simulated runs of all stages came to.

    Attributes:
        stages: by name, in order.
        walks: by status, how often a way through the stages ended with it; GO is a GO at each.
            None where the plan has nothing but a watch.
        reached: by stage, the share of walks that came to it.
    """

    stages: dict[str, Simulation]
    walks: dict[Status, Chance] | None
    reached: dict[str, float]

    @property
    def weakest(self) -> Simulation:
        """The stage with the smallest chance of GO, among those that walks go through."""
        gates = gates_of(self.stages) or self.stages
        return min(gates.values(), key=lambda found: found.chances[Status.GO].rate)

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe document."""
        return {
            "stages": {
                name: found.to_json() | {"reached": self.reached.get(name)}
                for name, found in self.stages.items()
            },
            "ladder": self.walks
            and {status.value: chance.to_json() for status, chance in self.walks.items()},
        }


def gates_of(stages: Mapping[str, Simulation]) -> dict[str, Simulation]:
    """The stages that a walk goes through."""
    return {name: found for name, found in stages.items() if name != AFTERWARDS}


def climb(
    plan: Plan, *, runs: int = 200, seed: int = 0, progress: Callable[[], None] = lambda: None
) -> Ladder:
    """Simulates every stage of a plan, and the way through them.

    Args:
        plan: with the effects that are supposed.
        runs: of each stage.
        seed: the same seed gives the same answer.
        progress: called after each run of each stage.

    Raises:
        ConfigError: as `simulate`.
    """
    return ladder(
        {
            stage.name: simulate(plan, stage=stage.name, runs=runs, seed=seed, progress=progress)
            for stage in plan.whole.stages
        }
    )


def ladder(stages: Mapping[str, Simulation]) -> Ladder:
    """The ways through stages that were simulated with equally many runs.

    Args:
        stages: by name, in order, each with its runs' ends.
    """
    gates = gates_of(stages)
    if not gates:
        return Ladder(dict(stages), None, {})
    walking = list(range(next(iter(gates.values())).runs))
    total = len(walking)
    ended: list[Status] = []
    reached = {}
    for name, found in gates.items():
        reached[name] = len(walking) / total
        statuses = {walk: found.ends[walk].status for walk in walking}
        ended += [status for status in statuses.values() if status is not Status.GO]
        walking = [walk for walk, status in statuses.items() if status is Status.GO]
    return Ladder(dict(stages), chances([*ended, *(Status.GO for _ in walking)]), reached)
