"""What greedy block verification leaves behind for the steps after it.

Greedy block verification alone bends the output law. It is repaired by decoding the next γ − τ − 1
positions after a block with a modified target (Sun et al., arXiv 2403.10444, appendix; see
`specdecode.verification.greedy_block`). A further block may end before these positions are through;
then its modification acts on the target that the older one has modified. So each row carries a list
of modifications, oldest first, each with its own ratio p̃, which follows the emitted path in the
target it was made from.

A modified row needs the draft law at its position. A row therefore drafts at least as many tokens
as positions are left to modify. These always fit: they lie inside an earlier block, which did not
pass the end of the reply or of the draft's context window. A drafter that may propose nothing, such
as prompt lookup, has no law there, so it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specdecode.decoding.request import Request
from specdecode.drafting import Drafter, Proposal
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import ConfigError, EngineError
from specdecode.verification import (
    Coins,
    Verification,
    VerificationRule,
    emitted_ratio,
    modified_target,
)


@dataclass(frozen=True)
class Modification:
    """One earlier block's claim on the target of the next positions.

    Attributes:
        ratio: p̃ along the emitted path since that block's start.
        remaining: positions still to be decoded with the modified target, at least 1.
    """

    ratio: float
    remaining: int


class CarriedModifications:
    """The modifications in force in every row of a batch."""

    def __init__(self) -> None:
        self._of: dict[Request, list[Modification]] = {}

    def remaining(self, request: Request) -> int:
        """Least number of tokens the row's next block must have."""
        return max((m.remaining for m in self._of.get(request, [])), default=0)

    def drop(self, requests: Sequence[Request]) -> None:
        """Forget requests that left."""
        for request in requests:
            self._of.pop(request, None)

    def verify(
        self,
        rule: VerificationRule,
        requests: Sequence[Request],
        proposal: Proposal,
        target_laws: Tensor,
        coins: Coins,
    ) -> Verification:
        """Judge a step with the targets in force, and carry on what it leaves behind.

        Args:
            rule: greedy block verification.
            requests: rows of the batch.
            proposal: their blocks.
            target_laws: float `[B, G+1, V]`, the target's own.
            coins: of the step.

        Raises:
            EngineError: a block is shorter than the positions left to modify.
        """
        carried = [self._of.pop(request, []) for request in requests]
        for row, (request, length) in enumerate(zip(requests, proposal.lengths, strict=True)):
            needed = max((m.remaining for m in carried[row]), default=0)
            if length < needed:
                raise EngineError(
                    f"batch row {row}: the drafter proposed {length} tokens after {request.length} "
                    f"but greedy block verification needs its laws at {needed} positions to stay "
                    "lossless: decode again, with verification 'block'"
                )
        outcome, after = verify_modified(rule, proposal, target_laws, coins, carried)
        self._of.update(zip(requests, after, strict=True))
        return outcome


def verify_modified(
    rule: VerificationRule,
    proposal: Proposal,
    target_laws: Tensor,
    coins: Coins,
    carried: Sequence[Sequence[Modification]],
) -> tuple[Verification, list[list[Modification]]]:
    """Greedy block verification with the modifications each row carries.

    Args:
        rule: greedy block verification.
        proposal: blocks of at least as many tokens as the row has positions left to modify.
        target_laws: float `[B, G+1, V]`, the target's own.
        coins: of the step.
        carried: per row, oldest first.

    Returns:
        The outcome, and what each row carries from here on.
    """
    tokens, draft_laws, device = proposal.tokens, proposal.probs, target_laws.device
    targets = [target_laws.double()]  # in force for the oldest block, the next one, …, this one
    ratios: list[Tensor | None] = []
    for depth in range(max(len(m) for m in carried)):
        column = [m[depth] if depth < len(m) else Modification(1.0, 0) for m in carried]
        ratio = torch.tensor([m.ratio for m in column], dtype=torch.float64, device=device)
        remaining = torch.tensor([m.remaining for m in column], device=device)
        ratios.append(ratio)
        targets.append(modified_target(tokens, draft_laws, targets[-1], ratio, remaining))
    lengths = torch.tensor(proposal.lengths, device=device)
    outcome = rule(tokens, draft_laws, targets[-1], coins, lengths, validate=False)
    kept = outcome.num_accepted.tolist()
    after: list[list[Modification]] = [[] for _ in carried]
    for depth, (target, before) in enumerate(zip(targets, [*ratios, None], strict=True)):
        ratio = emitted_ratio(tokens, draft_laws, target, outcome, before)
        for row, value in enumerate(ratio.tolist()):
            # The block just judged comes last: it is a row's youngest, whatever the row's depth.
            this_block = depth == len(ratios)
            if not this_block and depth >= len(carried[row]):
                continue
            total = proposal.lengths[row] if this_block else carried[row][depth].remaining
            if total > kept[row] + 1:
                after[row].append(Modification(value, total - kept[row] - 1))
    return outcome, after


def refuse_silent_drafter(drafter: Drafter) -> None:
    """Refuse drafters that may propose fewer tokens than wanted.

    Raises:
        ConfigError: the drafter has no network that states a law at every position.
    """
    if not isinstance(drafter, SelfDrafter | ModelDrafter):
        raise ConfigError(
            f"verification 'greedy-block' needs a draft law at every position, and '{drafter.name}'"
            " may propose nothing: use 'block', or a draft with a network (self-int4, a model)"
        )
