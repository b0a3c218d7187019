"""How many tokens to draft: fixed, or chosen step by step for the most tokens per second.

**Why a chosen length keeps the output law.** The length γ of a step is a function of what happened
before the step, and the step's coins are fresh. Take any history h with kept tokens c, and suppose
that from every later history the rest of the reply follows the target (at the last token there is
no rest). Given h, γ is a number; one iteration of a rule that is lossless as it stands, followed by
tokens of the target, is the target's law after c (arXiv 2211.17192, 2403.10444, Theorem 1). So the
rest of the reply follows the target from h, too, whatever h says about rejected tokens, counts or
neighbours. The argument breaks if γ looks at a token of the step itself: dropping a token that was
just drawn because its draft probability is low keeps the others too often, although each of them
is verified correctly. With p = (.5, .3, .2), q = (.3, .3, .4), dropping where q < .35, the output
is off by a total variation of 0.12. That is why ``choose`` is called before anything is drafted,
and never sees what is.

**What is maximised.** With acceptance probability α per draft token a step of γ yields

    E[tokens] = 1 + α + … + α^γ = (1 − α^(γ+1)) / (1 − α)          (arXiv 2211.17192, Equation 1)

and costs T_draft(γ) + T_verify(γ + 1). The step with the best ratio is taken.

**How α is estimated.** From the row's own steps: a step that kept τ of γ tokens is τ successes and,
if τ < γ, one failure, added to a prior of small weight. Older steps fade, so that a reply which
turns from prose to code is followed. Tokens are not independent, and block verification accepts
prefixes rather than tokens, so the model is an approximation. It decides speed, never the law.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_PRIOR_SUCCESSES, _PRIOR_FAILURES = 0.7, 0.3
_FADING = 0.9  # weight an observation keeps with each further step: about ten are remembered
_LONGEST_PAUSE = 64


class DraftLength(Protocol):
    """Decides how many tokens the next step of one row drafts."""

    def choose(self, seconds: Sequence[float], most: int) -> int:
        """Draft length of the next step, 0 to `most`; called once a step, before drafting.

        Args:
            seconds: what a step with 0, 1, … draft tokens costs, in any unit.
            most: what the reply can still use, at least 0.
        """
        ...

    def observe(self, drafted: int, kept: int) -> None:
        """Learn what became of the step: `kept` of `drafted` tokens were accepted."""
        ...


class FixedLength:
    """Always γ.

    Args:
        gamma: draft tokens a step.
    """

    def __init__(self, gamma: int) -> None:
        self._gamma = gamma

    def choose(self, seconds: Sequence[float], most: int) -> int:
        """See `DraftLength.choose`; costs play no part."""
        del seconds
        return min(self._gamma, most)

    def observe(self, drafted: int, kept: int) -> None:
        """Nothing to learn."""


class AdaptiveLength:
    """The length of most expected tokens per second; see the module docstring.

    When not drafting at all looks best, one token is drafted after pauses of 1, 2, 4, … 64 steps: a
    useless draft costs little. After a long pause that one token outweighs what was known before,
    so that a draft that has become good is used again at once. Pauses begin at 1 again when
    drafting paid and was accepted, not when a draft is accepted and still too dear.
    """

    def __init__(self) -> None:
        self._successes = self._failures = 0.0
        self._pause = 1  # plain steps before the next probe
        self._idle = 0  # plain steps since a token was drafted
        self._probing = False

    @property
    def acceptance(self) -> float:
        """Estimated probability that a draft token is accepted if those before it were."""
        successes = _PRIOR_SUCCESSES + self._successes
        return successes / (successes + _PRIOR_FAILURES + self._failures)

    def choose(self, seconds: Sequence[float], most: int) -> int:
        """See `DraftLength.choose`."""
        best = best_length(self.acceptance, seconds)
        self._probing = best == 0
        if self._probing and self._idle >= self._pause:
            best = 1
        return min(best, most)

    def observe(self, drafted: int, kept: int) -> None:
        """See `DraftLength.observe`. A plain step says nothing, but ages what is known."""
        if drafted == 0:
            self._idle += 1
            return
        weight = _FADING ** (1 + self._idle)
        self._idle = 0
        self._successes = weight * self._successes + kept
        self._failures = weight * self._failures + (kept < drafted)
        if self._probing:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        elif kept:
            self._pause = 1


def best_length(acceptance: float, seconds: Sequence[float]) -> int:
    """γ with the most expected tokens per second; of equally good ones the shortest.

    Args:
        acceptance: α, 0 to 1.
        seconds: what a step with 0, 1, … draft tokens costs, each positive.
    """
    best, best_speed = 0, 0.0
    tokens, reached = 0.0, 1.0
    for gamma, cost in enumerate(seconds):
        tokens += reached  # 1 + α + … + α^γ
        reached *= acceptance
        if tokens / cost > best_speed:
            best, best_speed = gamma, tokens / cost
    return best
