"""Requests that join a running batch, and requests that leave it before their reply has ended.

Why neither changes the law of anybody's reply. A row's coins are keyed by its own seed, prompt and
count of steps (`Request.step`), its laws by its own tokens, its draft by its own context. What a
neighbour does, and whether there is one, enters floating-point rounding and, with an adaptive
draft length, the costs by which a length is chosen before anything is drafted
(`specdecode.drafting.length`). A request that leaves takes its coins along; they decide nothing
about those that stay, so even a leave that depends on what was drawn selects nothing.
"""

from __future__ import annotations

from specdecode.decoding.loop import Batch, begin_replies, drop
from specdecode.decoding.request import Request
from specdecode.decoding.sharing import SharedPrompts
from specdecode.models.cache import KVCache
from specdecode.models.prefill import PREFILL_CHUNK, read_tokens


def join(batch: Batch, newcomers: list[Request]) -> list[tuple[Request, list[int]]]:
    """Read prompts, draw the first tokens, and take the requests into the batch.

    The prompts are read in a cache of their own: beside running rows, every one of which would be
    padded to the length of a prompt, they would cost many times as much. If it raises, the batch is
    what it was; the newcomers may have a first token, so begin again with `Request.restarted`.

    Args:
        batch: between two steps, with a request in it.
        newcomers: not yet begun; at least one.

    Returns:
        Each newcomer's first token. Those that end with it are not in the batch.
    """
    batch.admit(newcomers)
    shared = SharedPrompts.of([r.prompt for r in newcomers])
    padding = PREFILL_CHUNK if len(shared.prompts) > 1 else 0
    cache = KVCache(len(shared.prompts), max(len(p) for p in shared.prompts) + padding)
    starts = [0] * len(shared.prompts)
    logits = read_tokens(batch.network, shared.prompts, starts, cache)[:, None]
    if shared.any_shared:
        logits = logits[shared.source]
        cache.keep_rows(shared.source)
    added = begin_replies(batch, newcomers, logits)
    going_on = [row for row, r in enumerate(newcomers) if r.finish_reason is None]
    if going_on:
        if len(going_on) < len(newcomers):
            cache.keep_rows(going_on)
        _take_in(batch, [newcomers[row] for row in going_on], cache)
    failure = None if batch.drafter is None else batch.drafter.failure
    for request in newcomers:
        if request.finish_reason is not None:
            request.draft_failure = failure
    return added


def leave(batch: Batch, leaving: list[Request]) -> None:
    """Let requests go between two steps, wherever they are in their replies.

    Args:
        batch: between two steps.
        leaving: requests in it; others are passed over.
    """
    drop(batch, [r for r in leaving if r in batch.requests])


def _take_in(batch: Batch, newcomers: list[Request], cache: KVCache) -> None:
    capacity = max(len(r.prompt) + r.limit for r in newcomers) + batch.gamma + 1
    running = len(batch.requests)
    try:
        if batch.drafter is not None:
            most = max(capacity, batch.cache.capacity)
            batch.drafter.add_rows([r.tokens for r in newcomers], most)
        batch.cache.add_rows(cache, capacity)
    except BaseException:
        if batch.drafter is not None:  # a drafter of several parts may have gone half the way
            batch.drafter.keep_rows(list(range(running)))
        raise
    batch.lengths.add(newcomers)
    batch.requests = batch.requests + newcomers
    for request in newcomers:
        request.seconds = batch.seconds.copy()
    for request in batch.requests:
        request.batch_size = max(request.batch_size, len(batch.requests))
    batch.wants_logits = any(r.params.logprobs for r in batch.requests)
