"""The exact law of the tensor code itself, in float64.

Given a block, a rule's outcome is a step function of its coins: coin i matters only through
u_i < h_i, the resample coin only through the token whose cell of the CDF it hits. So one call of
the rule per combination of cells, each weighted by its size, gives the whole law without sampling.
The borders of the cells come from the rule's own plan; what happens in a cell is decided by the
rule as users call it. Accept coins sit at the lower ends of their cells, 0 and h, so that a rule
comparing with ≤ shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import torch
from torch import Tensor

from specdecode.verification.block import block_acceptance
from specdecode.verification.exact import BlockLaw, Law, Number, Outcome, Tokens
from specdecode.verification.greedy_block import greedy_block_acceptance
from specdecode.verification.registry import RULES
from specdecode.verification.resampling import next_token_weights
from specdecode.verification.token import token_acceptance
from specdecode.verification.types import AcceptancePlan, Coins, DraftBlock, VerificationRule

Cell = tuple[float, float]
"""(a coin inside the cell, the cell's size)."""


@dataclass(frozen=True)
class Cells:
    """A partition of each coin's range into cells within which nothing changes.

    Attributes:
        accept: cells of accept coin i, per position.
        resample: cells of the resample coin, per τ.
    """

    accept: list[list[Cell]]
    resample: list[list[Cell]]


FindCells = Callable[[DraftBlock], Cells]
Acceptance = Callable[[DraftBlock], AcceptancePlan]
Weights = Callable[[DraftBlock, Tensor, Tensor], Tensor]


def rejection_cells(acceptance: Acceptance, weights: Weights = next_token_weights) -> FindCells:
    """Cells of a rule that accepts by u < h and resamples by inverse CDF of ``weights``."""

    def find(block: DraftBlock) -> Cells:
        plan = acceptance(block)
        accept = [
            [(coin, size) for coin, size in ((0.0, h), (h, 1 - h)) if size > 0]
            for h in plan.probability[0].tolist()
        ]
        taus = range(block.draft_tokens.shape[1] + 1)
        rows = [weights(block, torch.tensor([tau]), plan.scale)[0].tolist() for tau in taus]
        return Cells(accept, [cdf_cells(row) for row in rows])

    return find


def match_cells(block: DraftBlock) -> Cells:
    """Cells of sample-and-match, where every coin draws from a target row by inverse CDF."""
    rows = [cdf_cells(row) for row in block.target_probs[0].tolist()]
    # Before full acceptance the resample coin has no part: one cell.
    return Cells(rows[:-1], [*([[(0.0, 1.0)]] * (len(rows) - 1)), rows[-1]])


CELLS: dict[str, FindCells] = {
    "token": rejection_cells(token_acceptance),
    "block": rejection_cells(block_acceptance),
    "greedy-block": rejection_cells(greedy_block_acceptance),
    "match": match_cells,
}


def kernel_rule(name: str) -> BlockLaw:
    """The law of ``RULES[name]``."""
    return kernel_law(RULES[name], CELLS[name])


def kernel_law(rule: VerificationRule, find_cells: FindCells) -> BlockLaw:
    """The law of any tensor rule whose cells are known, as a ``BlockLaw`` for ``exact``."""

    def law(
        block: Tokens, draft_rows: Sequence[Law], target_rows: Sequence[Law]
    ) -> dict[Outcome, Number]:
        inputs = _tensors(block, draft_rows, target_rows)
        cells = find_cells(inputs)
        combinations = list(product(*cells.accept))
        kept, _ = _run(rule, inputs, [([c for c, _ in cell], 0.0) for cell in combinations])
        cases: list[tuple[list[float], float]] = []
        sizes: list[float] = []
        for combination, tau in zip(combinations, kept, strict=True):
            size = 1.0
            for _, part in combination:
                size *= part
            for coin, part in cells.resample[tau]:
                cases.append(([c for c, _ in combination], coin))
                sizes.append(size * part)
        found: dict[Outcome, Number] = defaultdict(float)
        for outcome, size in zip(zip(*_run(rule, inputs, cases), strict=True), sizes, strict=True):
            found[outcome] += size
        return dict(found)

    return law


def _tensors(block: Tokens, draft_rows: Sequence[Law], target_rows: Sequence[Law]) -> DraftBlock:
    def rows(laws: Sequence[Law]) -> Tensor:
        return torch.tensor([[[float(p) for p in law] for law in laws]], dtype=torch.float64)

    return DraftBlock(
        torch.tensor([block], dtype=torch.int64),
        rows(draft_rows),
        rows(target_rows),
        torch.tensor([len(block)]),
    )


def _run(
    rule: VerificationRule, inputs: DraftBlock, cases: list[tuple[list[float], float]]
) -> tuple[list[int], list[int]]:
    """Call ``rule`` once, a row per case (accept coins, resample coin)."""
    B = len(cases)
    coins = Coins(
        torch.tensor([accept for accept, _ in cases], dtype=torch.float64),
        torch.tensor([resample for _, resample in cases], dtype=torch.float64),
    )
    result = rule(
        inputs.draft_tokens.expand(B, -1),
        inputs.draft_probs.expand(B, -1, -1),
        inputs.target_probs.expand(B, -1, -1),
        coins,
    )
    return result.num_accepted.tolist(), result.next_token.tolist()


def cdf_cells(weights: Sequence[float]) -> list[Cell]:
    """Midpoint and size of each token's cell; tokens without weight have none."""
    borders = [0.0]
    for weight in weights:
        borders.append(borders[-1] + weight)
    total = borders[-1]
    return [
        ((low + high) / 2 / total, (high - low) / total)
        for low, high in pairwise(borders)
        if high > low
    ]
