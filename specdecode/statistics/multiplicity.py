"""Several tests, one error level.

Holm's procedure judges p-values of a family that are there all at once. Alarms and stages that
decide by themselves and at different times share a level instead: the ledger splits a total alpha
among them, in exact fractions, and refuses to give out more than there is. (A GO that needs every
primary test to reject needs neither: that is an intersection-union test.)

Source: S. Holm, Scand. J. Stat. 6 (1979); R. Berger, Technometrics 24 (1982).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

from specdecode.errors import ConfigError

Exact = Fraction | Decimal | int | float | str


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values: reject those at most alpha, and some true hypothesis falls rarely.

    P(any true hypothesis is rejected) <= alpha, whatever the dependence. The p-values belong to
    tests looked at once.

    Args:
        p_values: name of each hypothesis of the family and its p-value.

    Returns:
        Adjusted p-values in the order of the input.

    Raises:
        ConfigError: a p-value is missing (NaN) or outside [0, 1].
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise ConfigError(f"p-value of {name!r} is {p}, outside [0, 1]")
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


def exact(number: Exact) -> Fraction:
    """A number as the fraction it is written as: 0.05 and "0.05" are 1/20, "1/3" is a third.

    Raises:
        ConfigError: it is no finite number.
    """
    try:
        # A float means the shortest decimal that prints it, as it was typed into a plan.
        return Fraction(repr(number) if isinstance(number, float) else number)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise ConfigError(
            f"{number!r} is no exact number: write a decimal or a fraction, such as 0.05 or 1/40"
        ) from error


@dataclass(frozen=True)
class AlphaLedger:
    """A total alpha and who got how much of it. Spending returns a new ledger.

    Args:
        total: the whole error level, inside (0, 1).
        levels: name of each alarm or stage and its level; together at most the total.

    Raises:
        ConfigError: a level is not positive, or the levels exceed the total.
    """

    total: Fraction
    levels: Mapping[str, Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.total < 1:
            raise ConfigError(f"the total alpha must lie inside (0, 1), not {self.total}")
        for name, level in self.levels.items():
            if level <= 0:
                raise ConfigError(f"alpha of {name!r} must be positive, not {level}")
        if (spent := self.spent) > self.total:
            raise ConfigError(
                f"alphas of {', '.join(self.levels)} sum to {_decimal(spent)}, more than the total "
                f"{_decimal(self.total)}: lower one, or declare a larger total before any data"
            )
        object.__setattr__(self, "levels", MappingProxyType(dict(self.levels)))

    @classmethod
    def by_weights(cls, total: Exact, weights: Mapping[str, Exact]) -> AlphaLedger:
        """Splits the whole total in proportion to positive weights, without rounding."""
        shares = {name: exact(weight) for name, weight in weights.items()}
        for name, share in shares.items():
            if share <= 0:
                raise ConfigError(f"weight of {name!r} must be positive, not {weights[name]}")
        if not shares:
            raise ConfigError("no alarms or stages to split the alpha among")
        whole = sum(shares.values())
        return cls(
            exact(total), {name: exact(total) * share / whole for name, share in shares.items()}
        )

    @property
    def spent(self) -> Fraction:
        """Sum of all levels."""
        return sum(self.levels.values(), Fraction(0))

    @property
    def remaining(self) -> Fraction:
        """What may still be given out."""
        return self.total - self.spent

    def spend(self, name: str, level: Exact) -> AlphaLedger:
        """A ledger in which `name` also has its level; each name may get one only once."""
        if name in self.levels:
            raise ConfigError(f"{name!r} has its alpha already: {_decimal(self.levels[name])}")
        return AlphaLedger(self.total, {**self.levels, name: exact(level)})

    def level(self, name: str) -> float:
        """Level of one alarm or stage as a float, rounded down so that floats keep the total too.

        Raises:
            ConfigError: the name has none.
        """
        if name not in self.levels:
            raise ConfigError(f"{name!r} has no alpha; the ledger knows {', '.join(self.levels)}")
        rounded = float(self.levels[name])
        return rounded if Fraction(rounded) <= self.levels[name] else math.nextafter(rounded, 0.0)

    def to_json(self) -> dict[str, object]:
        """Total, levels and what is left, as exact fractions in text ("1/40")."""
        return {
            "total": str(self.total),
            "levels": {name: str(level) for name, level in self.levels.items()},
            "remaining": str(self.remaining),
        }


def _decimal(number: Fraction) -> str:
    return f"{float(number):g} ({number})"
