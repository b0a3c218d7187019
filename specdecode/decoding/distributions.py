"""From logits to the law that the next token is drawn from.

One function serves plain decoding, drafting, verification and the audit, so that a parameter cannot
act in one of them and be forgotten in another.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdecode.decoding.params import SamplingParams
from specdecode.errors import ConfigError

_REMOVED = float("-inf")


def distributions(
    logits: Tensor,
    params: SamplingParams,
    contexts: Sequence[Sequence[int]] | None = None,
    prompt_length: int = 0,
) -> Tensor:
    """Apply sampling parameters to rows of logits.

    Args:
        logits: float `[R, V]`.
        params: of the request all rows belong to.
        contexts: per row, every token before it (prompt and reply so far). Needed for penalties
            only; None otherwise.
        prompt_length: how many of a context's tokens are the prompt. Presence and frequency
            penalties count the reply alone, the repetition penalty both.

    Returns:
        float32 `[R, V]` (float64 for float64 logits), each row a probability law. Temperature 0
        gives one-hot rows; of equal logits the lowest token id wins. A row in which parameters
        overflowed holds NaN.

    Raises:
        ConfigError: penalties without contexts, or a bias for a token outside the vocabulary.
    """
    scores = logits if logits.dtype == torch.float64 else logits.float()
    if params.logit_bias:
        scores = _with_bias(scores, params.logit_bias)
    if params.needs_history:
        if contexts is None or len(contexts) != scores.shape[0]:
            raise ConfigError("penalties need one context per row of logits")
        scores = torch.stack(
            [
                _with_penalties(row, context, prompt_length, params)
                for row, context in zip(scores, contexts, strict=True)
            ]
        )
    if params.is_greedy:
        best = scores.argmax(-1, keepdim=True)
        # Biases or penalties that overflow leave no most likely token, and no law to draw from.
        sure = torch.where(scores.gather(-1, best).isfinite(), 1.0, torch.nan).to(scores.dtype)
        return torch.zeros_like(scores).scatter_(-1, best, sure)
    if params.temperature != 1:
        scores = scores / params.temperature
    if 0 < params.top_k < scores.shape[-1]:
        weakest_kept = scores.topk(params.top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < weakest_kept, _REMOVED)
    probs = scores.softmax(-1)
    if params.top_p < 1:
        probs = _nucleus(probs, params.top_p)
    if params.min_p > 0:
        kept = probs >= params.min_p * probs.amax(-1, keepdim=True)
        probs = _renormalised(probs * kept)
    return probs


def _with_bias(scores: Tensor, bias: dict[int, float]) -> Tensor:
    ids = torch.tensor(list(bias), device=scores.device)
    if int(ids.min()) < 0 or int(ids.max()) >= scores.shape[-1]:
        raise ConfigError(
            f"logit_bias names a token outside 0..{scores.shape[-1] - 1}: {sorted(bias)}"
        )
    values = torch.tensor(list(bias.values()), device=scores.device, dtype=scores.dtype)
    biased = scores.clone()
    biased[:, ids] += values
    return biased


def _with_penalties(
    row: Tensor, context: Sequence[int], prompt_length: int, params: SamplingParams
) -> Tensor:
    """Penalise one row `[V]`: repetition as in Keskar et al. 2019, the others as OpenAI defines."""
    row = row.clone()
    if params.repetition_penalty != 1 and len(context):
        seen = torch.tensor(sorted(set(context)), device=row.device)
        values, penalty = row[seen], params.repetition_penalty
        row[seen] = torch.where(values > 0, values / penalty, values * penalty)
    reply = context[prompt_length:]
    if (params.presence_penalty or params.frequency_penalty) and len(reply):
        ids, counts = torch.tensor(list(reply), device=row.device).unique(return_counts=True)
        row[ids] -= params.presence_penalty + params.frequency_penalty * counts.to(row.dtype)
    return row


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Keep the most likely tokens up to and including the one that reaches `top_p`."""
    ordered, index = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    before[..., 0] = -1  # the most likely token stays, even if float32 rounds top_p to 0
    kept = torch.zeros_like(probs, dtype=torch.bool).scatter(-1, index, before < top_p)
    return _renormalised(probs * kept)


def _renormalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)
