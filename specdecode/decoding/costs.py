"""What a step costs by its draft length and the size of its batch, in seconds on this machine.

Costs steer the adaptive draft length. They decide speed, never the law; but a length that differs
uses other coins, so with equal seeds token ids agree only between engines with equal costs. That is
why a table is measured once and then frozen, and why one can be given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from specdecode.errors import ConfigError


@dataclass(frozen=True)
class StepCosts:
    """Seconds of one step at one batch size.

    Attributes:
        draft: of drafting 0, 1, … γ_max tokens.
        verify: of the target's pass over 1, 2, … γ_max + 1 tokens and of the rule.
    """

    draft: tuple[float, ...]
    verify: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.draft or len(self.draft) != len(self.verify):
            raise ConfigError(
                f"step costs: {len(self.draft)} draft and {len(self.verify)} verify costs; give "
                "both for draft lengths 0, 1, … γ_max"
            )
        for name, values, least in (("draft", self.draft, 0.0), ("verify", self.verify, 5e-324)):
            for length, value in enumerate(values):
                if not (math.isfinite(value) and value >= least):
                    raise ConfigError(
                        f"step costs: {name} cost of draft length {length} is {value}; give "
                        "finite seconds, above 0 for verify"
                    )

    def seconds(self, gamma: int) -> tuple[float, ...]:
        """Of whole steps with 0, 1, … `gamma` draft tokens."""
        both = zip(self.draft, self.verify, strict=True)
        return tuple(draft + verify for draft, verify in both)[: gamma + 1]


class CostTable:
    """Step costs by batch size, measured for sizes 1, 2, 4, 8, ….

    A size without an entry takes the next larger one's, or the largest.

    Args:
        gamma: longest draft γ_max.
        given: costs by batch size, used as they are: nothing is measured then.

    Raises:
        ConfigError: given costs are empty, end below γ_max or are for no batch size.
    """

    def __init__(self, gamma: int, given: Mapping[int, StepCosts] | None = None) -> None:
        self._gamma, self._is_given = gamma, given is not None
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(
                f"costs are of type {type(given).__name__}: give StepCosts by batch size"
            )
        self._known = dict(given or {})
        if self._is_given and not self._known:
            raise ConfigError("costs: the table is empty; give costs for batch size 1 at least")
        for size, costs in self._known.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ConfigError(f"costs: {size!r} is no batch size; give a whole number from 1")
            if not isinstance(costs, StepCosts):
                raise ConfigError(f"costs of batch size {size} are {costs!r}: give StepCosts")
            if len(costs.draft) <= gamma:
                raise ConfigError(
                    f"costs of batch size {size} end at draft length {len(costs.draft) - 1}, "
                    f"but up to {gamma} tokens may be drafted; give {gamma + 1} costs"
                )

    @property
    def known(self) -> Mapping[int, StepCosts]:
        """Costs so far, by batch size."""
        return MappingProxyType(self._known)

    def prepare(self, size: int, measure: Callable[[int], StepCosts]) -> None:
        """Measure what a batch of `size` requests needs until its last one, if not yet known."""
        if self._is_given:
            return
        bucket = 1
        while True:
            if bucket not in self._known:
                self._known[bucket] = measure(bucket)
            if bucket >= size:
                return
            bucket *= 2

    def seconds(self, size: int) -> tuple[float, ...]:
        """Seconds of a step with 0, 1, … γ_max draft tokens in a batch of `size`."""
        nearest = min((s for s in self._known if s >= size), default=max(self._known))
        return self._known[nearest].seconds(self._gamma)
