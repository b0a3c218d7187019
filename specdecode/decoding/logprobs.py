"""Log-probabilities of emitted tokens, under the model's own law.

The law is the softmax of the raw logits: before bias, penalties, temperature and filters. It says
what the model thinks of a token, whatever way it was drawn, so that values compare across requests
with different parameters, between plain and speculative decoding, and with a teacher-forced score
of the same text; and a token that a filter removed still has a finite one. (The default of vLLM,
"raw_logprobs", for the same reasons.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class TokenLogprobs:
    """One emitted token under the model's own law; natural logarithms.

    Attributes:
        token_id: the emitted token.
        logprob: its log-probability.
        top: the k most likely tokens as (token id, log-probability), the most likely first, the
            lower id first among equals. Fewer than k only if the vocabulary is smaller. The emitted
            token is one of them only if it is that likely.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


def token_logprobs(logits: Tensor, tokens: Sequence[int], count: int) -> list[TokenLogprobs]:
    """Look up emitted tokens in the rows that predicted them.

    Args:
        logits: float `[R, V]`, raw; row t predicted token t. R may exceed the number of tokens:
            rows behind a rejected draft token are left alone.
        tokens: what was emitted.
        count: how many of the most likely tokens to name (k).

    Returns:
        One entry a token.
    """
    # The softmax is taken in float64: values of single and of batched passes then differ by what
    # the passes themselves differ, and by nothing more.
    laws = logits[: len(tokens)].double().log_softmax(-1)
    return [
        TokenLogprobs(token, float(law[token]), _most_likely(law, count))
        for token, law in zip(tokens, laws, strict=True)
    ]


def _most_likely(law: Tensor, count: int) -> tuple[tuple[int, float], ...]:
    # topk leaves open which of equal values it takes; everything at or above its last one is looked
    # at, so that the answer cannot depend on device or shape.
    weakest = law.topk(min(count, law.shape[-1])).values[-1]
    candidates = (law >= weakest).nonzero()[:, 0]
    pairs = zip(candidates.tolist(), law[candidates].tolist(), strict=True)
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count])
