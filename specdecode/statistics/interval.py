"""What every method of this package answers with: a number and how far it may be off."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Interval:
    """A two-sided interval.

    Attributes:
        estimate: the statistic on the data as they are.
        low: lower end.
        high: upper end.
        n: number of clusters (prompts) behind it.
        level: nominal coverage, for example 0.95.
        method: how it was made: "jackknife-t", "betting", "percentile", "clopper-pearson", …
    """

    estimate: float
    low: float
    high: float
    n: int
    level: float
    method: str

    def to_json(self) -> dict[str, float | int | str]:
        """The fields as a JSON-safe mapping."""
        return asdict(self)
