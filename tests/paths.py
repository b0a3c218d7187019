"""Every way through a program of random choices, for output laws that are exact.

A run makes the choices that its script names, then the first possible one each time, and notes what
it might have chosen instead. Those alternatives are the scripts of further runs; the weights of all
runs add up to 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Path:
    """One way: choices to make, then choices made by default.

    Attributes:
        script: choices to begin with.
        taken: all choices so far.
        weight: probability of having made them.
        others: scripts of the alternatives that were left after the script had ended.
    """

    script: tuple[int, ...] = ()
    taken: list[int] = field(default_factory=list)
    weight: float = 1.0
    others: list[tuple[int, ...]] = field(default_factory=list)

    def choose(self, weights: list[float]) -> int:
        """Choose an index of positive weight; weights need not sum to 1."""
        depth = len(self.taken)
        if depth < len(self.script):
            choice = self.script[depth]
        else:
            choice, *rest = [i for i, w in enumerate(weights) if w > 0]
            self.others += [(*self.taken, other) for other in rest]
        self.taken.append(choice)
        self.weight *= weights[choice] / sum(weights)
        return choice


def every_path() -> Iterator[Path]:
    """Yields a path at a time; whoever runs the program makes its choices before the next."""
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        path = Path(waiting.pop())
        yield path
        waiting += path.others
