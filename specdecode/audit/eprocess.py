"""The evidence against "every token was drawn from the target": an e-process over bets.

Wealth of one gambler: prod_t (1 + lambda r_t), with r_t the centred bets of `directions` and
lambda from a fixed grid. The mean over all directions (weighted, see `weights_of`) and stakes is
again an e-process, because each has mean at most 1 under the hypothesis whatever their dependence.
By Ville's inequality it reaches 1/alpha with probability at most alpha, at any time and over any
number of prompts read in a fixed order, so reading may stop or go on at will.

Where p is only known up to numerical noise, a bet's mean may be anything in an interval
[low, high] around 0 without anything being wrong. Each stake then bets against the far end of it:
r - high for positive stakes, r - low for negative ones. Every such factor still has mean at most 1.

Source: V. Ville (1939); G. Shafer, "Testing by betting", JRSS-A 184 (2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from specdecode.errors import ConfigError

FloatArray = npt.NDArray[np.float64]

# Bets lie in [-1, 2], so wealth stays positive for stakes inside (-1/2, 1).
STAKES: tuple[float, ...] = (-0.4, -0.2, -0.1, -0.05, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
# Rows of float32 over tens of thousands of tokens sum to 1 within some 1e-6 only, and the mean of a
# bet is taken over the row's own sum: it is fair as it is, but may lie that far outside.
_ROUNDING = 1e-4
MAX_POINTS = 500
# The usual faults show in these; they keep most of the wealth however many directions there are.
MAIN_DIRECTIONS = ("draft", "sharper", "flatter")
MAIN_SHARE = 0.75


def weights_of(names: Sequence[str]) -> FloatArray:
    """Shares of the wealth: `MAIN_SHARE` for the main directions, the rest for the others.

    Args:
        names: of the directions.

    Returns:
        float64 [D], summing to 1; fixed before any token is read.
    """
    main = np.array([name in MAIN_DIRECTIONS for name in names])
    if main.all() or not main.any():
        return np.full(len(names), 1 / len(names))
    share = np.where(main, MAIN_SHARE / main.sum(), (1 - MAIN_SHARE) / (~main).sum())
    return np.asarray(share, dtype=np.float64)


def log_growth(
    bets: FloatArray,
    allowances: FloatArray | None = None,
    stakes: Sequence[float] = STAKES,
    made: npt.NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Log wealth factors log(1 + lambda (r - allowance)); 0 where no bet was made.

    Args:
        bets: float [..., D], each in [-1, 2].
        allowances: float [D, 2], (low <= 0, high >= 0): means that noise explains; None for none.
        stakes: L values inside (-1/2, 1).
        made: bool [..., D], known before the token: whether a bet is made; None for always.

    Returns:
        float [..., D, L].
    """
    grid = np.asarray(stakes)
    surplus = bets[..., None]
    if allowances is not None:
        surplus = surplus - np.where(grid > 0, allowances[:, 1:], allowances[:, :1])
    growth = np.log1p(surplus * grid)
    return np.asarray(growth if made is None else np.where(made[..., None], growth, 0.0))


def log_mixture(log_wealths: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Log of the mean wealth over directions and stakes: [..., D, L] -> [...].

    Args:
        log_wealths: float [..., D, L].
        weights: float [D], summing to 1; None for equal ones.
    """
    if weights is None:
        return _log_mean(log_wealths.reshape(*log_wealths.shape[:-2], -1))
    logs = _log_mean(log_wealths)
    top = logs.max(-1, keepdims=True)
    # Divided by the sum, so that equal wealths give exactly their own: nothing read is exactly 0.
    mean = (np.exp(logs - top) * weights).sum(-1) / weights.sum()
    return np.asarray(top[..., 0] + np.log(mean))


def _log_mean(logs: FloatArray) -> FloatArray:
    top = logs.max(-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(logs - top).mean(-1)))


class EProcess:
    """Accumulates evidence token by token in bounded memory.

    Args:
        names: one name per direction (column of the bets).
        alpha: level; evidence suffices once e >= 1/alpha.
        allowances: see `log_growth`; at most 0.2 either way.

    Attributes:
        crossed_at: tokens read when the evidence first sufficed; None if it never did.
        crossed_by: the bet that had earned most by then, such as "towards 'draft'".
        gains: float [T], what each token of the last update added to the log evidence; all gains
            add up to `log_e`.
    """

    def __init__(
        self, names: Sequence[str], alpha: float, allowances: FloatArray | None = None
    ) -> None:
        if not 0 < alpha < 1:
            raise ConfigError(f"alpha must lie inside (0, 1), not {alpha}")
        if not names:
            raise ConfigError("an e-process needs at least one direction")
        self.names = tuple(names)
        self._allowances = _checked(allowances, len(names))
        self.threshold = math.log(1 / alpha)
        self.tokens_read = 0
        self.max_log_e = 0.0
        self.crossed_at: int | None = None
        self.crossed_by: str | None = None
        self.gains: FloatArray = np.empty(0)
        self._weights = weights_of(names)
        self._log_wealths = np.zeros((len(names), len(STAKES)))
        self._points: list[tuple[int, float]] = []
        self._stride = 1

    @property
    def log_e(self) -> float:
        """Log evidence now."""
        return float(log_mixture(self._log_wealths, self._weights))

    @property
    def by_direction(self) -> dict[str, float]:
        """Log evidence of each direction by itself; says where a fault points, decides nothing."""
        means = _log_mean(self._log_wealths)
        return {name: float(value) for name, value in zip(self.names, means, strict=True)}

    @property
    def points(self) -> list[tuple[int, float]]:
        """Thinned curve of (tokens read, log e), at most `MAX_POINTS` and the newest point."""
        curve = list(self._points)
        if not curve or curve[-1][0] != self.tokens_read:
            curve.append((self.tokens_read, self.log_e))
        return curve

    def update(self, bets: FloatArray, made: npt.NDArray[np.bool_] | None = None) -> int | None:
        """Reads the bets of the next tokens in order.

        Args:
            bets: float [T, D].
            made: bool [T, D], whether a bet was made; None for always. See `log_growth`.

        Returns:
            The index in `bets` at which the evidence first sufficed, if it was here; else None.
        """
        if bets.ndim != 2 or bets.shape[1] != len(self.names):
            raise ConfigError(f"bets have shape {bets.shape}, expected [T, {len(self.names)}]")
        if not ((bets >= -1 - _ROUNDING) & (bets <= 2 + _ROUNDING)).all():  # also refuses NaN
            raise ConfigError("a bet lies outside [-1, 2]: the probability rows are malformed")
        if len(bets) == 0:
            self.gains = np.empty(0)
            return None
        growth = log_growth(bets, self._allowances, made=made)
        paths = self._log_wealths + np.cumsum(growth, axis=0)
        log_e = log_mixture(paths, self._weights)
        self.gains = np.diff(log_e, prepend=self.log_e)
        self._log_wealths = paths[-1]
        first = None
        if self.crossed_at is None and (log_e >= self.threshold).any():
            first = int(np.argmax(log_e >= self.threshold))
            self.crossed_at = self.tokens_read + first + 1
            self.crossed_by = self._strongest(paths[first])
        self.max_log_e = max(self.max_log_e, float(log_e.max()))
        self._keep_points(log_e)
        self.tokens_read += len(bets)
        return first

    def _strongest(self, log_wealths: FloatArray) -> str:
        """The bet that has earned most: a direction, and whether it was on it or against it."""
        shares = log_wealths + np.log(self._weights)[:, None]
        direction, stake = np.unravel_index(np.argmax(shares), shares.shape)
        side = "towards" if STAKES[int(stake)] > 0 else "away from"
        return f"{side} '{self.names[int(direction)]}'"

    def _keep_points(self, log_e: FloatArray) -> None:
        for offset, value in enumerate(log_e, start=self.tokens_read + 1):
            if offset % self._stride == 0:
                self._points.append((offset, float(value)))
                if len(self._points) >= MAX_POINTS:
                    self._stride *= 2
                    self._points = [p for p in self._points if p[0] % self._stride == 0]


def _checked(allowances: FloatArray | None, count: int) -> FloatArray | None:
    if allowances is None:
        return None
    low_high = np.asarray(allowances, dtype=np.float64)
    if low_high.shape != (count, 2):
        raise ConfigError(f"allowances have shape {low_high.shape}, expected [{count}, 2]")
    low, high = low_high.T
    if not ((low >= -0.2) & (low <= 0) & (high >= 0) & (high <= 0.2)).all():  # refuses NaN, too
        raise ConfigError("allowances must be (low, high) with -0.2 <= low <= 0 <= high <= 0.2")
    return low_high
