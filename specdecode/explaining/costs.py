"""What a token cost, stage by stage, and what it would have cost had one assumption held.

A step drafts for D seconds, scores for V, verifies for R, spends O elsewhere, and yields L tokens:

    (D + V + R + O) / L     seconds a token, against T of plain decoding

Speculation pays where that is below T. Which assumption failed where it is not? The one without
whose failure it would have paid: agreement if L = γ + 1 would do, the draft's cost if D = 0 would,
the cost of verification if V + R = T would (one pass, as plain decoding needs for a single token).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdecode.decoding.trace import StepTrace


@dataclass(frozen=True)
class StepCost:
    """Means over the steps of a reply, in seconds a step, and tokens a step.

    Attributes:
        draft_s: D, drafting.
        score_s: V, the target's pass.
        verify_s: R, the verification rule.
        other_s: O, everything else after the first token.
        tokens: L, tokens a step put into the reply.
        drafted: draft tokens a step.
        most: tokens a step of this draft length can yield, γ + 1.
        plain_s: T, seconds a token of plain decoding; null when it was not measured.
    """

    draft_s: float
    score_s: float
    verify_s: float
    other_s: float
    tokens: float
    drafted: float
    most: float
    plain_s: float | None

    @property
    def step_s(self) -> float:
        """Seconds a step."""
        return self.draft_s + self.score_s + self.verify_s + self.other_s

    @property
    def speed_ratio(self) -> float | None:
        """Tokens per second against plain decoding; null without it."""
        if self.plain_s is None or self.step_s <= 0:
            return None
        return self.plain_s * self.tokens / self.step_s

    @property
    def pays(self) -> bool | None:
        """Whether a token costs less than a plain one; null when that was not measured."""
        return None if self.speed_ratio is None else self.speed_ratio >= 1

    def ratio_if(self, assumption: str) -> float | None:
        """The speed ratio, had "agreement", "drafting" or "verification" been ideal."""
        if self.plain_s is None:
            return None
        step, tokens = self.step_s, self.tokens
        if assumption == "agreement":
            tokens = max(self.most, tokens)
        elif assumption == "drafting":
            step -= self.draft_s
        elif assumption == "verification":
            step -= max(0.0, self.score_s + self.verify_s - self.plain_s)
        else:
            raise ValueError(f"no such assumption: {assumption!r}")
        return self.plain_s * tokens / step if step > 0 else None


def step_cost(
    steps: Sequence[StepTrace], *, after_first_s: float | None, plain_s: float | None
) -> StepCost | None:
    """Costs of the steps in which something was drafted; None when there is none.

    Args:
        steps: the trace of a reply.
        after_first_s: seconds from its first token to its last; null leaves O at 0.
        plain_s: seconds a token of plain decoding.
    """
    if not any(step.draft_tokens for step in steps):
        return None
    n = len(steps)
    draft, score, verify = (
        sum(getattr(step, name) for step in steps) for name in ("draft_s", "score_s", "verify_s")
    )
    other = 0.0 if after_first_s is None else max(0.0, after_first_s - draft - score - verify)
    drafted = sum(len(step.draft_tokens) for step in steps) / n
    return StepCost(
        draft_s=draft / n,
        score_s=score / n,
        verify_s=verify / n,
        other_s=other / n,
        tokens=sum(len(step.emitted) for step in steps) / n,
        drafted=drafted,
        most=drafted + 1,
        plain_s=plain_s,
    )
