"""The five-stage loop of speculative decoding, one function a stage.

    1 draft      propose a block after the kept tokens           draft_block
    2 score      the target rates every position in one pass     score_block
    3 accept     keep the valid prefix                           ┐ verify_block: one rule decides
    4 resample   draw what follows where verification failed     ┘ both, from the same two laws
    5 continue   take the tokens over, start from their state    continue_from

Plain autoregressive decoding is the same loop with nothing drafted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from specdecode.decoding.clock import now
from specdecode.decoding.coins import Purpose
from specdecode.decoding.draft_step import draft_block
from specdecode.decoding.faults import GuardedDrafter
from specdecode.decoding.laws import row_laws
from specdecode.decoding.lengths import Lengths
from specdecode.decoding.modification import CarriedModifications
from specdecode.decoding.request import Request, StageSeconds
from specdecode.decoding.sharing import SharedPrompts
from specdecode.decoding.trace import StepTrace
from specdecode.drafting import Proposal
from specdecode.models.cache import KVCache
from specdecode.models.network import CausalNetwork
from specdecode.models.prefill import PREFILL_CHUNK, read_tokens
from specdecode.verification import Coins, Verification, VerificationRule
from specdecode.verification.resampling import inverse_cdf


@dataclass(eq=False)
class Batch:
    """Requests decoded together. More can join between two steps, and any can leave (`joining`).

    Attributes:
        network: the target.
        drafter: proposes blocks; None decodes plainly.
        rule: decides which draft tokens are kept.
        requests: those that are in it and have not finished, in cache row order.
        gamma: most draft tokens a step.
        lengths: how many draft tokens a row's next step has.
        by_position: draw the target's tokens from the coin of their absolute position, so that the
            reply is the one plain decoding gives with the same seed (plain decoding and "match").
        trace: keep every step.
        carried: what greedy block verification left for later steps; None with other rules.
        logits: the last pass's raw ones `[B, T, V]`, if a request reports log-probabilities.
        before: batches before this one, for a drafter that remembers them.
    """

    network: CausalNetwork
    drafter: GuardedDrafter | None
    rule: VerificationRule
    requests: list[Request]
    gamma: int
    lengths: Lengths
    by_position: bool
    trace: bool
    carried: CarriedModifications | None = None
    seconds: StageSeconds = field(default_factory=StageSeconds)
    logits: Tensor | None = None
    before: int = field(init=False)
    shared: SharedPrompts = field(init=False)
    wants_logits: bool = field(init=False)
    cache: KVCache = field(init=False)

    def __post_init__(self) -> None:
        self.shared = SharedPrompts.of([r.prompt for r in self.requests])
        self.wants_logits = any(r.params.logprobs for r in self.requests)
        capacity = max(len(r.prompt) + r.limit for r in self.requests) + self.gamma + 1
        if len(self.requests) > 1:  # rows of unequal length are padded to a chunk in the prefill
            capacity += PREFILL_CHUNK
        self.cache = KVCache(len(self.shared.prompts), capacity)
        self.before = 0 if self.drafter is None else self.drafter.batches_before
        self.admit(self.requests)
        if self.drafter is not None:
            self.drafter.begin(len(self.requests), capacity, self.cache)

    def admit(self, requests: list[Request]) -> None:
        """Settle which coins requests draw and when they came; not once they have begun."""
        for request in requests:
            # A remembered reply tells the coins it was drawn with: they must not judge again. Where
            # they depend on the position alone, no draft has a say in what comes out.
            if not self.by_position and self.before:
                request.draw_anew(self.before)


def decode(batch: Batch) -> Iterator[list[tuple[Request, list[int]]]]:
    """Decode until every request has finished.

    Yields:
        After each step, the tokens it added to each request still in the batch.
    """
    yield first_tokens(batch)
    while batch.requests:
        yield advance(batch)


def advance(batch: Batch) -> list[tuple[Request, list[int]]]:
    """One step: all five stages, for every request in the batch.

    If it raises, it can be run again, by the same rows or by some of them: no request has taken
    over anything, and its coins are the same the next time.

    Returns:
        The tokens it added to each request.
    """
    clock = [now(batch.network.device)]
    proposal = draft_block(batch)
    clock.append(now(batch.network.device))
    target_laws = score_block(batch, proposal)
    clock.append(now(batch.network.device))
    coins = _coins(batch, batch.requests, proposal.lengths, proposal.tokens.shape[1])
    outcome = verify_block(batch, proposal, target_laws, coins)
    clock.append(now(batch.network.device))
    batch.lengths.learn(batch.requests, proposal.lengths, outcome.num_accepted.tolist())
    batch.seconds.draft += clock[1] - clock[0]
    batch.seconds.verify += clock[3] - clock[1]
    step = Step(proposal, target_laws, coins, outcome, tuple(np.diff(clock)))
    return continue_from(batch, step)


@dataclass(frozen=True, eq=False)
class Step:
    """What stages 1 to 4 made of one step; seconds are (draft, score, verify)."""

    proposal: Proposal
    target_laws: Tensor
    coins: Coins
    outcome: Verification
    seconds: tuple[float, ...]


def score_block(batch: Batch, proposal: Proposal) -> Tensor:
    """Stage 2: the target's laws `[B, G+1, V]` after 0..G draft tokens, in one pass.

    The last kept token has not been processed yet; it goes in front of the draft.
    """
    last = torch.tensor([[r.tokens[-1]] for r in batch.requests], device=batch.network.device)
    starts = [r.length - 1 for r in batch.requests]
    logits = batch.network.forward(torch.cat([last, proposal.tokens], 1), starts, batch.cache)
    batch.logits = logits if batch.wants_logits else None
    return row_laws(logits, batch.requests, proposal.tokens, 0)


def verify_block(
    batch: Batch, proposal: Proposal, target_laws: Tensor, coins: Coins
) -> Verification:
    """Stages 3 and 4: how much of each block is kept, and the token that follows it."""
    if batch.carried is not None:
        return batch.carried.verify(batch.rule, batch.requests, proposal, target_laws, coins)
    lengths = torch.tensor(proposal.lengths, device=target_laws.device)
    return batch.rule(proposal.tokens, proposal.probs, target_laws, coins, lengths, validate=False)


def continue_from(batch: Batch, step: Step) -> list[tuple[Request, list[int]]]:
    """Stage 5: take over the tokens; finished requests leave the batch.

    State needs no rolling back: slots beyond a row's new length are masked and written again.
    """
    moment = time.perf_counter()
    kept, following = step.outcome.num_accepted.tolist(), step.outcome.next_token.tolist()
    drafts, width = step.proposal.tokens.tolist(), step.proposal.tokens.shape[1] + 1
    added: list[tuple[Request, list[int]]] = []
    for row, request in enumerate(batch.requests):
        position = request.length
        emitted = [*drafts[row][: kept[row]], following[row]]
        taken = request.append(emitted)
        request.count_step(min(kept[row], taken), step.proposal.lengths[row], width)
        request.report_logprobs(_row(batch.logits, row), emitted[:taken])
        request.last_token_s = moment - request.started
        if batch.trace:
            request.trace.append(_trace(batch, step, row, position, emitted[:taken]))
        added.append((request, emitted[:taken]))
    drop_finished(batch)
    return added


def first_tokens(batch: Batch) -> list[tuple[Request, list[int]]]:
    """Process the prompts and draw the first token of each reply."""
    logits = _prefill(batch)[:, None]
    if batch.shared.any_shared:
        logits = logits[batch.shared.source]
        batch.cache.keep_rows(batch.shared.source)
    added = begin_replies(batch, batch.requests, logits)
    drop_finished(batch)
    return added


def begin_replies(
    batch: Batch, requests: list[Request], logits: Tensor
) -> list[tuple[Request, list[int]]]:
    """Draw the first token of each reply, after the prompts' logits `[B, 1, V]`."""
    laws = row_laws(logits, requests, None, 0)[:, 0]
    coins = _coins(batch, requests, [0] * len(requests), 0)
    tokens = inverse_cdf(laws, coins.resample).tolist()
    moment = now(batch.network.device)
    added: list[tuple[Request, list[int]]] = []
    for row, (request, token) in enumerate(zip(requests, tokens, strict=True)):
        request.append([token])
        request.report_logprobs(logits[row], [token])
        request.first_token_s = request.last_token_s = moment - request.started
        added.append((request, [token]))
    return added


def _prefill(batch: Batch) -> Tensor:
    """Process the different prompts; logits `[P, V]` after each one."""
    prompts = batch.shared.prompts
    return read_tokens(batch.network, prompts, [0] * len(prompts), batch.cache)


def _coins(batch: Batch, requests: list[Request], lengths: list[int], width: int) -> Coins:
    device = batch.network.device
    if not batch.by_position:
        accept = _draw(requests, Purpose.ACCEPT, width).to(device)
        return Coins(accept, resample=_draw(requests, Purpose.RESAMPLE, 1)[:, 0].to(device))
    rows = [
        [r.coins.draw(Purpose.TARGET, r.length + i, 1)[0] for i in range(width + 1)]
        for r in requests
    ]
    resample = [row[length] for row, length in zip(rows, lengths, strict=True)]
    accept = torch.tensor([row[:width] for row in rows], dtype=torch.float64, device=device)
    return Coins(
        accept=accept.reshape(len(rows), width),
        resample=torch.tensor(resample, dtype=torch.float64, device=device),
    )


def _draw(requests: list[Request], purpose: Purpose, count: int) -> Tensor:
    return torch.from_numpy(np.stack([r.coins.draw(purpose, r.step, count) for r in requests]))


def drop_finished(batch: Batch) -> None:
    """Let requests that have finished leave the batch."""
    drop(batch, [r for r in batch.requests if r.finish_reason is not None])


def drop(batch: Batch, leaving: list[Request]) -> None:
    """Let requests leave the batch, between two steps."""
    if not leaving:
        return
    for request in leaving:
        request.seconds = batch.seconds.since(request.seconds)
        request.draft_failure = None if batch.drafter is None else batch.drafter.failure
    rows = _closed_up([r not in leaving for r in batch.requests])
    batch.requests = [batch.requests[i] for i in rows]
    batch.lengths.drop(leaving)
    if batch.carried is not None:
        batch.carried.drop(leaving)
    batch.wants_logits = any(r.params.logprobs for r in batch.requests)
    if rows:
        batch.cache.keep_rows(rows)
        if batch.drafter is not None:
            batch.drafter.keep_rows(rows)


def _closed_up(stays: list[bool]) -> list[int]:
    """Rows that go on, the last ones in the places of those that left: few rows have to move."""
    going_on = [row for row, here in enumerate(stays) if here]
    last = iter(reversed(going_on))
    return [row if stays[row] else next(last) for row in range(len(going_on))]


def _row(logits: Tensor | None, row: int) -> Tensor | None:
    return None if logits is None else logits[row]


def _trace(batch: Batch, step: Step, row: int, position: int, emitted: list[int]) -> StepTrace:
    proposal, length = step.proposal, step.proposal.lengths[row]
    tokens = proposal.tokens[row, :length]
    index = tokens[:, None]
    draft_s, score_s, verify_s = step.seconds
    return StepTrace(
        step=batch.requests[row].steps,  # which counts this one by now
        position=position,
        draft_tokens=tuple(tokens.tolist()),
        draft_probs=tuple(proposal.probs[row, :length].gather(1, index)[:, 0].tolist()),
        target_probs=tuple(step.target_laws[row, :length].gather(1, index)[:, 0].tolist()),
        accept_coins=tuple(step.coins.accept[row, :length].tolist()),
        resample_coin=float(step.coins.resample[row]),
        num_accepted=int(step.outcome.num_accepted[row]),
        emitted=tuple(emitted),
        draft_s=draft_s,
        score_s=score_s,
        verify_s=verify_s,
    )
