"""How far the target's logits move when only the shape of the forward pass changes.

Kernels add up in another order for one row than for many, so equal inputs give slightly different
logits. A token that loses to the best one by less than that is a tie. The size is measured on the
unmodified target, never chosen by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from torch import Tensor

from specdecode.audit.row import AuditRow
from specdecode.audit.scorer import ONE_BY_ONE, Pair, Scorer, check_finite

SAMPLE_ROWS = 8
SAMPLE_TOKENS = 24
# Only tokens near the top can trade places; the far tail moves more and decides nothing.
_CONTENDERS = 16
# The largest of a few hundred differences underestimates the largest of many thousand.
MARGIN = 1.5


@dataclass(frozen=True)
class Tolerance:
    """A measured tie tolerance, in units of raw logits.

    Attributes:
        gap: largest difference between two logits of a row that is still a tie.
        logit: half of the gap: two logits that move apart by this much each make one tie.
        measured: largest change of a gap to the best logit seen in the sample.
        positions: number of positions compared; 0 means nothing was measured and gap is 0.
        margin: factor from `measured` to `gap`.
    """

    gap: float
    logit: float
    measured: float
    positions: int
    margin: float

    def to_json(self) -> dict[str, float | int]:
        """The fields as a JSON-safe mapping."""
        return asdict(self)


def measure_tolerance(
    scorer: Scorer, rows: Iterable[AuditRow], *, margin: float = MARGIN
) -> Tolerance:
    """Compares one-token with many-token forward passes on prefixes spread over the rows.

    What decides a greedy token is the gap between the best logit and each contender's; the largest
    change of such a gap, over contenders and positions, times the margin, is the tolerance.

    Raises:
        NumericalError: a reading is NaN or infinite; names the row.
    """
    sample = sample_pairs(rows, SAMPLE_ROWS, SAMPLE_TOKENS)
    worst, positions = 0.0, 0
    for index, many in scorer.target([pair for _, pair in sample]):
        row, (prompt, output) = sample[index]
        check_finite(many, row.label, "target")
        single = scorer.one_by_one(prompt, output).to(many.device)
        check_finite(single, row.label, ONE_BY_ONE)
        worst = max(worst, gap_change(many, single))
        positions += len(output)
    gap = margin * worst
    return Tolerance(gap, gap / 2, worst, positions, margin)


def gap_change(many: Tensor, single: Tensor) -> float:
    """The largest change of a contender's gap to the best logit.

    Args:
        many: float [R, V], logits; they choose the contenders.
        single: float [R, V], the same in another shape of the forward pass.
    """
    top = many.topk(min(_CONTENDERS, many.shape[-1]), dim=-1).indices
    change = (many.double() - single.double()).gather(-1, top)
    # A token that is out of the question in both (-infinity) has not moved.
    return float((change[:, :1] - change).nan_to_num(nan=0.0).abs().max())


def sample_pairs(
    rows: Iterable[AuditRow],
    most_rows: int,
    most_tokens: int,
    usable: Callable[[AuditRow], bool] = lambda row: True,
) -> list[tuple[AuditRow, Pair]]:
    """Rows spread evenly over those with output, and the beginnings of their outputs.

    Args:
        rows: gone through twice, so that none but the chosen ones is kept.
        most_rows: how many rows at most.
        most_tokens: of each output at most.
        usable: which rows may be chosen.
    """
    total = sum(1 for row in rows if row.output and usable(row))
    count = min(most_rows, total)
    wanted = {i * total // count for i in range(count)}
    these = (row for row in rows if row.output and usable(row))
    chosen = [row for place, row in enumerate(these) if place in wanted]
    return [(row, (row.prompt, row.output[:most_tokens])) for row in chosen]
