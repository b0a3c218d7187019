"""What a finished request reports."""

from __future__ import annotations

from dataclasses import dataclass

from specdecode.decoding.logprobs import TokenLogprobs
from specdecode.decoding.request import FinishReason, Request
from specdecode.decoding.trace import StepTrace


@dataclass(frozen=True)
class Acceptance:
    """How drafting went.

    Attributes:
        steps: verify steps (the prompt's own pass is not one).
        drafted: draft tokens proposed.
        accepted: draft tokens kept in the reply (bonus tokens are not draft tokens).
        histogram: steps that kept 0, 1, …, γ draft tokens.
    """

    steps: int
    drafted: int
    accepted: int
    histogram: tuple[int, ...]

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens per verify step, the bonus or resampled token INCLUDED; None without a step."""
        return None if self.steps == 0 else 1 + self.accepted / self.steps

    @property
    def acceptance_rate(self) -> float | None:
        """Kept per proposed draft token; None if nothing was proposed."""
        return None if self.drafted == 0 else self.accepted / self.drafted


@dataclass(frozen=True)
class Timing:
    """Seconds of one request. In a batch the stage times are the whole batch's.

    Attributes:
        ttft_s: from the call to the first token.
        e2e_s: from the call to the last token.
        tpot_s: (e2e - ttft) / (output tokens - 1); None for a single token.
        draft_s: in drafting.
        verify_s: in the target's passes after the prompt, and in the verification rule.
        other_s: everything else, the prompt's own pass included.
    """

    ttft_s: float
    e2e_s: float
    tpot_s: float | None
    draft_s: float
    verify_s: float
    other_s: float


@dataclass(frozen=True)
class GenerationResult:
    """One reply.

    Attributes:
        prompt_token_ids: what was decoded from.
        token_ids: the reply, a token that ended it included.
        text: the reply without special tokens and stop strings; None without a tokenizer.
        finish_reason: "stop" (end-of-reply token or stop string) or "length".
        acceptance: how drafting went.
        timing: seconds.
        target_tokens: target rows computed after the prompt; at least the visible tokens - 1.
        seed: the seed in force.
        trace: one entry per verify step, or None without `trace=True`.
        logprobs: one entry per token of `token_ids`, or None if the parameters ask for none.
        sample_index: which of the `n` replies to its prompt this is, from 0.
        batch_size: requests decoded together with it, itself included; less than was asked for
            where that did not fit in memory.
        draft_failure: why drafting ended before the reply did, or None. From then on the reply was
            decoded plainly; its distribution is still the target's.
    """

    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    text: str | None
    finish_reason: FinishReason
    acceptance: Acceptance
    timing: Timing
    target_tokens: int
    seed: int
    trace: tuple[StepTrace, ...] | None
    logprobs: tuple[TokenLogprobs, ...] | None
    sample_index: int
    batch_size: int
    draft_failure: str | None


def finished(request: Request, width: int, *, trace: bool) -> GenerationResult:
    """Turn a finished request into its result.

    Args:
        request: with a finish reason and both token times set.
        width: the configured number of draft tokens γ; the histogram has γ + 1 entries.
        trace: whether steps were kept.

    Raises:
        ValueError: the request has not finished.
    """
    first, last, seconds = request.first_token_s, request.last_token_s, request.seconds
    if request.finish_reason is None or first is None or last is None:
        raise ValueError("the request has not finished")
    histogram = request.histogram + [0] * (width + 1 - len(request.histogram))
    count = len(request.output)
    return GenerationResult(
        prompt_token_ids=tuple(request.prompt),
        token_ids=tuple(request.output),
        text=request.text(),
        finish_reason=request.finish_reason,
        acceptance=Acceptance(request.steps, request.drafted, request.accepted, tuple(histogram)),
        timing=Timing(
            ttft_s=first,
            e2e_s=last,
            tpot_s=(last - first) / (count - 1) if count > 1 else None,
            draft_s=seconds.draft,
            verify_s=seconds.verify,
            other_s=max(0.0, last - seconds.draft - seconds.verify),
        ),
        target_tokens=request.target_tokens,
        seed=request.seed,
        trace=tuple(request.trace) if trace else None,
        logprobs=tuple(request.logprobs) if request.params.logprobs else None,
        sample_index=request.sample_index,
        batch_size=request.batch_size,
        draft_failure=request.draft_failure,
    )
