"""What one verify step did to one request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepTrace:
    """One step of the five-stage loop, kept with `trace=True`.

    Attributes:
        step: 1-based number of the step in its request.
        position: absolute position of the first draft token.
        draft_tokens: what was proposed.
        draft_probs: probability the drafter gave each proposed token.
        target_probs: probability the target gave each proposed token (with "greedy-block" the
            target itself, not the modified one it was judged by).
        accept_coins: one uniform draw per draft token.
        resample_coin: the draw behind the last emitted token.
        num_accepted: draft tokens the rule kept (before any cut by the end of the reply).
        emitted: tokens that entered the reply.
        draft_s: seconds drafting took (the whole batch).
        score_s: seconds the target's pass took (the whole batch).
        verify_s: seconds the rule took (the whole batch).
    """

    step: int
    position: int
    draft_tokens: tuple[int, ...]
    draft_probs: tuple[float, ...]
    target_probs: tuple[float, ...]
    accept_coins: tuple[float, ...]
    resample_coin: float
    num_accepted: int
    emitted: tuple[int, ...]
    draft_s: float
    score_s: float
    verify_s: float
