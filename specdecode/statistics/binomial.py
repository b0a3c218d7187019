"""Exact statements about proportions, by `scipy.stats`."""

from __future__ import annotations

from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.interval import Interval


def proportion_interval(successes: int, n: int, *, level: float = 0.95) -> Interval | None:
    """Clopper-Pearson interval of a proportion; None when n is 0.

    Assumes independent trials: with several tokens per prompt it is somewhat too narrow.
    """
    _check(successes, n, "proportion")
    if n == 0:
        return None
    found = stats.binomtest(successes, n).proportion_ci(confidence_level=level, method="exact")
    return Interval(successes / n, float(found.low), float(found.high), n, level, "clopper-pearson")


def excess_p_value(successes: int, n: int, control_successes: int, control_n: int) -> float | None:
    """One-sided Fisher exact p-value that the first proportion exceeds the control's.

    None when either side has no trials: no data is no comparison.
    """
    _check(successes, n, "first sample")
    _check(control_successes, control_n, "control sample")
    if n == 0 or control_n == 0:
        return None
    table = [[successes, n - successes], [control_successes, control_n - control_successes]]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)


def _check(successes: int, n: int, what: str) -> None:
    if not 0 <= successes <= n:
        raise ConfigError(f"{what}: {successes} successes of {n} trials is impossible")
