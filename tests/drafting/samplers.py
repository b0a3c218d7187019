"""Samplers for drafters that are tested without an engine."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from specdecode.verification import Coins


class MostLikely:
    """Takes the most likely token, whatever law is stated; verification accepts half the time."""

    def __call__(self, logits, drawn, index):
        laws = logits.softmax(-1)
        return laws.argmax(-1), laws

    def laws(self, logits, drafted, offset):
        return logits.softmax(-1)

    def below(self, turn, pending, width):
        return self

    def coins(self, width):
        rows = self.rows
        return Coins(torch.full((rows, width), 0.5).double(), torch.full((rows,), 0.5).double())


class Path:
    """One way through a program of random choices; `every_path` walks all of them.

    A choice names its alternatives with their probabilities; the path goes where it was told, and
    afterwards knows the probability of having gone there.
    """

    def __init__(self, told: list[int]) -> None:
        self._told, self.choices, self.probability = told, list[tuple[int, int]](), 1.0

    def choose(self, probabilities: list[float]) -> int:
        possible = [i for i, p in enumerate(probabilities) if p > 0]
        at = len(self.choices)
        pick = self._told[at] if at < len(self._told) else 0
        self.choices.append((pick, len(possible)))
        self.probability *= probabilities[possible[pick]]
        return possible[pick]


def every_path() -> Iterator[Path]:
    """Yields a path at a time; whoever runs the program makes its choices before the next."""
    told: list[int] | None = []
    while told is not None:
        path = Path(told)
        yield path
        told = None
        for at in reversed(range(len(path.choices))):
            pick, count = path.choices[at]
            if pick + 1 < count:
                told = [p for p, _ in path.choices[:at]] + [pick + 1]
                break


class Enumerated:
    """Draws every token that has a chance, one path at a time (one row only)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, logits, drawn, index):
        law = logits.softmax(-1)
        return torch.tensor([self.path.choose(law[0].tolist())]), law

    def laws(self, logits, drafted, offset):
        return logits.softmax(-1)

    def below(self, turn, pending, width):
        return self

    def coins(self, width):
        return None  # the enumerated rule finds its own

    def rule(self, rule, find_cells):
        """`rule`, called once with a coin out of every cell within which nothing changes."""
        from specdecode.verification.types import DraftBlock

        def judge(tokens, draft_laws, target_laws, coins, lengths, *, validate):
            length = int(lengths[0])
            args = tokens[:, :length], draft_laws[:, :length], target_laws[:, : length + 1]
            cells = find_cells(DraftBlock(*args, lengths))
            accept = [self._coin(options) for options in cells.accept]
            half = torch.tensor([0.5], dtype=torch.float64)
            accept = torch.tensor([accept], dtype=torch.float64)
            kept = int(rule(*args, Coins(accept, half), validate=False).num_accepted[0])
            resample = torch.tensor([self._coin(cells.resample[kept])], dtype=torch.float64)
            return rule(*args, Coins(accept, resample), validate=False)

        return judge

    def _coin(self, options):
        return options[self.path.choose([size for _, size in options])][0]
