"""How much the target's own numerical noise earns in each direction, so that noise is no evidence.

The audit reads the target's laws p_a in large batches; the engine drew from p_e, the same laws in
another shape of the forward pass. Then a bet is not quite fair even for a perfect sampler:

    E[r] = sum_x (p_e(x) - p_a(x)) g(x),     g = min(a / p_a, 2)

and the weights g know the noise of p_a: where p_a came out too small, g is too large, and p_e pays
for it. To second order E[r] is the squared noise, always towards the draft, and with a draft close
to the target it is a sizeable part of the bet (bfloat16, SmolLM2-135M and its int4 self-draft:
E[r] = 0.0020, standard deviation of r 0.11; enough for a false alarm within a few thousand tokens).

So the same expectation is measured on the unmodified target, with laws read one token at a time in
place of p_e, and the bets have to earn more than that. It is exact per position: nothing is
sampled, and a few hundred positions settle the third digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specdecode.audit.directions import directions, expected_bets, recent_tokens
from specdecode.audit.laws import row_law
from specdecode.audit.places import gated, gated_names, places
from specdecode.audit.row import AuditRow
from specdecode.audit.scorer import ONE_BY_ONE, Scorer, check_finite
from specdecode.audit.tolerance import sample_pairs

SAMPLE_ROWS = 24
SAMPLE_TOKENS = 24
# Another engine rounds elsewhere than our one-token pass does. Noise that shares nothing with that
# of p_a earns most; laws in float32 are such a case, and earn 1.3 times what one-token laws do.
MARGIN = 1.5
_STANDARD_ERRORS = 3.0
# Above this the noise could hide a fault of a few percent total variation.
LARGEST_HARMLESS = 0.05
# Keeps wealth positive for stakes up to 0.8 whatever was measured.
_LARGEST_USED = 0.2

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Drift:
    """What bets may earn by noise alone.

    Attributes:
        low: per direction, the least mean bet that is put down to noise; at most 0.
        high: the largest; at least 0.
        measured: mean over the sample.
        positions: number of positions compared; 0 means that nothing was measured.
    """

    low: Mapping[str, float]
    high: Mapping[str, float]
    measured: Mapping[str, float]
    positions: int

    @property
    def too_large(self) -> bool:
        """Whether the noise could hide a fault that matters."""
        return any(max(-self.low[d], self.high[d]) > LARGEST_HARMLESS for d in self.high)

    def allowances(self, names: Sequence[str]) -> FloatArray:
        """float64 [D, 2]: (low, high) of each direction, as the e-process takes them.

        A bet on one place of a step, "bonus: draft", takes what "draft" earns where that place was
        not in the sample, and the wider of both ends where it was.
        """
        pairs = [
            (self._end(name, self.low, min), self._end(name, self.high, max)) for name in names
        ]
        return np.asarray(np.clip(pairs, -_LARGEST_USED, _LARGEST_USED), dtype=np.float64)

    @staticmethod
    def _end(name: str, ends: Mapping[str, float], wider: Callable[..., float]) -> float:
        everywhere = ends.get(name.rpartition(": ")[2], 0.0)
        return wider(ends.get(name, everywhere), everywhere)

    def to_json(self) -> dict[str, object]:
        """The fields as a JSON-safe mapping."""
        return {
            "low": dict(self.low),
            "high": dict(self.high),
            "measured": dict(self.measured),
            "positions": self.positions,
        }


def measure_drift(scorer: Scorer, rows: Iterable[AuditRow]) -> Drift:
    """Expected bets of a perfect sampler whose laws come from one-token forward passes.

    Per direction the interval is mean ± (0.5 |mean| + 3 standard errors), stretched to hold 0.

    Args:
        scorer: the reference.
        rows: of all arms; the sampled ones are used, spread evenly.

    Raises:
        NumericalError: a reading is NaN or infinite; names the row.
    """
    chosen = directions(with_draft=scorer.has_draft, with_recent=True)
    names = [*chosen, *gated_names(list(chosen))]
    sample = sample_pairs(rows, SAMPLE_ROWS, SAMPLE_TOKENS, lambda row: not row.params.is_greedy)
    drafts = scorer.draft([pair for _, pair in sample]) if scorer.has_draft else None
    sums: list[FloatArray] = []
    counts: list[FloatArray] = []
    for index, many in scorer.target([pair for _, pair in sample]):
        row, (prompt, output) = sample[index]
        check_finite(many, row.label, "target")
        p = row_law(many, row, 0)
        single = scorer.one_by_one(prompt, output).to(many.device, many.dtype)
        check_finite(single, row.label, ONE_BY_ONE)
        q = None
        if drafts is not None:
            proposed = next(drafts)[1].to(many.device)
            check_finite(proposed, row.label, "draft")
            q = row_law(proposed, row, 0).nan_to_num(nan=0.0)  # where it proposes nothing
        recent = recent_tokens(prompt, output, 0, len(output))
        bets = expected_bets(p, row_law(single, row, 0), q, chosen, recent)
        where = places(row.steps, len(output), row.rule)
        columns, made = gated(bets.cpu().numpy(), list(chosen), where)
        sums.append(columns.sum(0))
        counts.append(made.sum(0).astype(np.float64))
    if not sums:
        zero = dict.fromkeys(chosen, 0.0)
        return Drift(zero, zero, zero, 0)
    seen = np.array(counts).sum(0) > 0
    return _interval(
        [name for name, one in zip(names, seen, strict=True) if one],
        np.array(sums)[:, seen],
        np.array(counts)[:, seen],
    )


def drift_of(names: Sequence[str], sums: Sequence[FloatArray], counts: Sequence[float]) -> Drift:
    """The drift of bets that are made everywhere.

    Args:
        names: of the directions.
        sums: float64 [D] of each row, expected bets summed over its positions.
        counts: how many positions these are.
    """
    if sum(counts) == 0:
        zero = dict.fromkeys(names, 0.0)
        return Drift(zero, zero, zero, 0)
    return _interval(names, np.array(sums), np.array(counts))


def _interval(names: Sequence[str], sums: FloatArray, counts: FloatArray) -> Drift:
    """Ratio estimates with the row as unit: positions of one row share the noise of its cache.

    Args:
        names: of the columns.
        sums: float64 [rows, D], expected bets summed over the positions they were made at.
        counts: float64 [rows, D] (or [rows], equal for all), how many these are; no column of 0.
    """
    made = np.broadcast_to(counts if counts.ndim == 2 else counts[:, None], sums.shape)
    total = made.sum(0)
    mean = sums.sum(0) / total
    rows = (made > 0).sum(0)
    residuals = sums - made * mean
    several = np.maximum(rows, 2)
    error = np.sqrt((residuals**2).sum(0) * several / (several - 1)) / total
    # one row tells nothing about the others
    error = np.where(rows > 1, error, np.abs(mean))
    reach = (MARGIN - 1) * np.abs(mean) + _STANDARD_ERRORS * error
    return Drift(
        low={n: min(0.0, float(v)) for n, v in zip(names, mean - reach, strict=True)},
        high={n: max(0.0, float(v)) for n, v in zip(names, mean + reach, strict=True)},
        measured={n: float(v) for n, v in zip(names, mean, strict=True)},
        positions=int(total.max()),
    )
