"""How far the draft's own laws move when only the kernels and the shape of the pass change.

An audit reads the draft in large batches; the engine drew from the same draft one token at a time,
with kernels made for that, over the target's cache perhaps. Four-bit kernels round to bfloat16
whatever the target's precision is. So what is put down to noise is measured on the draft itself,
as `drift` and `tolerance` measure it on the target.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specdecode.audit.directions import directions, expected_bets
from specdecode.audit.drift import SAMPLE_ROWS, SAMPLE_TOKENS, Drift, drift_of
from specdecode.audit.laws import row_law
from specdecode.audit.row import AuditRow
from specdecode.audit.scorer import DRAFT_ONE_BY_ONE, Scorer, check_finite
from specdecode.audit.tolerance import MARGIN, Tolerance, gap_change, sample_pairs


@dataclass(frozen=True)
class DraftNoise:
    """What honest drafting may show by noise alone.

    Attributes:
        drift: what bets on draft tokens may earn.
        tolerance: how far the draft's logits move.
    """

    drift: Drift
    tolerance: Tolerance


def measure_draft_noise(scorer: Scorer, rows: Iterable[AuditRow]) -> DraftNoise | None:
    """Compares the draft as it is read with the draft as an engine computes it.

    Args:
        scorer: the reference.
        rows: of all arms; sampled ones with steps are used, spread evenly.

    Returns:
        None where the draft is unknown or no sampled row has steps.

    Raises:
        NumericalError: a reading is NaN or infinite; names the row.
    """
    if not scorer.has_draft:
        return None
    sample = sample_pairs(
        rows, SAMPLE_ROWS, SAMPLE_TOKENS, lambda row: bool(row.steps) and not row.params.is_greedy
    )
    if not sample:
        return None
    chosen = directions(with_draft=True)
    pairs = [pair for _, pair in sample]
    targets = scorer.target(pairs)
    sums, counts = [], []
    worst, positions = 0.0, 0
    for index, many in scorer.draft(pairs):
        row, (prompt, output) = sample[index]
        check_finite(many, row.label, "draft")
        single = scorer.draft_one_by_one(prompt, output).to(many.device, many.dtype)
        check_finite(single, row.label, DRAFT_ONE_BY_ONE)
        worst = max(worst, gap_change(many, single))
        positions += len(output)
        p = row_law(next(targets)[1].to(many.device), row, 0)
        read = row_law(many, row, 0).nan_to_num(nan=0.0)  # where it proposes nothing
        drawn = row_law(single, row, 0).nan_to_num(nan=0.0)
        proposed = (read > 0).any(-1) & (drawn > 0).any(-1)
        bets = expected_bets(read[proposed], drawn[proposed], p[proposed], chosen)
        sums.append(bets.sum(0).cpu().numpy())
        counts.append(float(len(bets)))
    gap = MARGIN * worst
    return DraftNoise(
        drift_of(list(chosen), sums, counts),
        Tolerance(gap, gap / 2, worst, positions, MARGIN),
    )
