"""Samplers for drafters that are tested without an engine."""

from __future__ import annotations

import torch

from specdecode.verification import Coins
from specdecode.verification.types import DraftBlock
from tests.paths import Path


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
