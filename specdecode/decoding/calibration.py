"""Time the stages of a step on a scratch batch.

Stages run as they do in decoding, laws and rule included, after one run that is not timed. Few
widths are timed and the rest is interpolated: a pass over 3 tokens costs what lies between 2 and 4,
and drafting a further token costs the same each time. Sampling parameters are the defaults and the
context is short, so costs are approximate; they steer the draft length, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from specdecode.decoding.costs import StepCosts
from specdecode.decoding.draft_step import draft_block
from specdecode.decoding.lengths import Lengths
from specdecode.decoding.loop import Batch, decode, score_block, verify_block
from specdecode.decoding.params import SamplingParams
from specdecode.decoding.request import Request
from specdecode.drafting import Proposal
from specdecode.verification import Coins

_CONTEXT = 64
_REPETITIONS = 3
_DRAFTED = 4  # a draft of 1 and one of this many tokens are timed


def measure_costs(
    make_batch: Callable[[list[Request]], Batch],
    size: int,
    gamma: int,
    max_context: int,
    now: Callable[[], float],
) -> StepCosts:
    """Measure a step's costs at one batch size.

    Args:
        make_batch: makes a batch with the network, drafter and rule to be timed.
        size: requests in the batch.
        gamma: longest draft γ_max.
        max_context: positions the target was made for; no wider pass is timed.
        now: clock reading in seconds, once all work is done.

    Returns:
        Costs for draft lengths 0 to `gamma`.
    """
    room = max_context - 4  # a prompt token and its first reply token, a last token, one to spare
    batch = make_batch(_scratch_requests(size, gamma, max(1, min(_CONTEXT, room - gamma))))
    next(decode(batch))  # reads the prompts, so that the caches are those of a running reply
    most = max(0, min(gamma, room))
    widths = sorted({0, most, *(g for g in (1, 2, 4, 8, 16, 32, 64) if g < most)})
    verify = [_seconds(_verify, batch, g, now) for g in widths]
    draft = [0.0]
    if most > 0:
        one, few = 1, min(_DRAFTED, most)
        first, last = (_seconds(_draft, batch, g, now) for g in (one, few))
        slope = max(0.0, last - first) / (few - one) if few > one else first
        draft += [first + slope * more for more in range(gamma)]
    # A wider pass is never cheaper; where it was measured so, that was noise.
    rising = np.maximum.accumulate(verify)
    return StepCosts(
        draft=tuple(draft + [0.0] * (gamma + 1 - len(draft))),
        verify=tuple(np.interp(range(gamma + 1), widths, rising).tolist()),
    )


def _scratch_requests(size: int, gamma: int, context: int) -> list[Request]:
    """Requests that run long enough; no two prompts are alike where the context has the room."""
    return [
        Request(
            prompt=[row >> bit & 1 for bit in range(context)],
            params=SamplingParams(max_tokens=gamma + 2),
            seed=0,
            eos_token_ids=frozenset(),
            tokenizer=None,
            limit=gamma + 2,
        )
        for row in range(size)
    ]


def _seconds(
    run: Callable[[Batch, int], None], batch: Batch, gamma: int, now: Callable[[], float]
) -> float:
    run(batch, gamma)
    taken = []
    for _ in range(_REPETITIONS):
        start = now()
        run(batch, gamma)
        taken.append(now() - start)
    return median(taken)


def _draft(batch: Batch, gamma: int) -> None:
    batch.lengths = Lengths.fixed(batch.requests, gamma)
    draft_block(batch)


def _verify(batch: Batch, gamma: int) -> None:
    """Score and judge a block that no drafter made: prompt lookup, say, may find none."""
    size, device = len(batch.requests), batch.network.device
    probs = torch.zeros(size, gamma, batch.network.vocab_size, device=device)
    probs[..., 0] = 1
    tokens = torch.zeros(size, gamma, dtype=torch.int64, device=device)
    proposal = Proposal(tokens, probs, [gamma] * size)
    coins = Coins(torch.zeros(size, gamma, device=device), torch.zeros(size, device=device))
    verify_block(batch, proposal, score_block(batch, proposal), coins)
