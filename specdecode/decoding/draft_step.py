"""The first stage of the loop: what is drafted, and for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from specdecode.decoding.draft_sampling import DraftSampler
from specdecode.drafting import Proposal
from specdecode.drafting.base import empty_proposal

if TYPE_CHECKING:
    from specdecode.decoding.loop import Batch


def draft_block(batch: Batch) -> Proposal:
    """Stage 1: propose up to γ tokens a row, and no more than the reply can still take.

    How many is settled here, before the first one is drawn; later it would bias the output. Rows
    that are to have none cost no draft, where the drafter can leave them out: one reply that drafts
    beside many whose drafts do not pay costs the draft of one. That changes no other row's draft:
    what it is drawn from and with are its own context and its own coins.
    """
    requests = batch.requests
    wanted = batch.lengths.wanted(requests)
    if batch.carried is not None:
        wanted = [max(w, batch.carried.remaining(r)) for w, r in zip(wanted, requests, strict=True)]
    rows = [row for row, want in enumerate(wanted) if want > 0]
    if batch.drafter is None or not rows:
        return empty_proposal(len(requests), batch.network.vocab_size, batch.network.device)
    some = len(rows) < len(requests) and batch.drafter.drafts_some
    if not some:
        rows = list(range(len(requests)))
    drafting = [requests[row] for row in rows]
    steps = [r.step for r in drafting]
    sample = DraftSampler(drafting, steps, batch.network.device, batch.gamma)
    proposal = batch.drafter.propose(
        [r.tokens for r in drafting],
        [wanted[row] for row in rows],
        sample,
        rows if some else None,
    )
    return _spread(proposal, rows, len(requests)) if some else proposal


def _spread(proposal: Proposal, rows: list[int], batch: int) -> Proposal:
    """A proposal for some rows as one for all, of length 0 for the others."""
    tokens, probs = proposal.tokens, proposal.probs
    index = torch.tensor(rows, device=tokens.device)
    lengths = [0] * batch
    for row, length in zip(rows, proposal.lengths, strict=True):
        lengths[row] = length
    return Proposal(
        tokens.new_zeros(batch, *tokens.shape[1:]).index_copy_(0, index, tokens),
        probs.new_zeros(batch, *probs.shape[1:]).index_copy_(0, index, probs),
        lengths,
    )
