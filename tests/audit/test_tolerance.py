import math

import pytest
import torch

from specdecode.audit.rows import read_rows
from specdecode.audit.tolerance import MARGIN, SAMPLE_ROWS, SAMPLE_TOKENS, measure_tolerance
from specdecode.errors import NumericalError
from tests.audit.toys import ToyScorer, tables


def rows_of(count, length):
    record = {"prompt_token_ids": [1], "sampling": {"temperature": 0.0}}
    return [
        {**record, "output_token_ids": [2] * length, "order_index": index} for index in range(count)
    ]


def measure(shake, rows):
    scorer = ToyScorer(tables()[0], shake=shake)
    return measure_tolerance(scorer, read_rows(rows, scorer).rows)


def test_identical_shapes_leave_no_tolerance():
    assert measure(0.0, rows_of(3, 5)).gap == pytest.approx(0.0, abs=1e-6)


def test_the_tolerance_is_the_measured_spread_times_the_margin():
    found = measure(0.01, rows_of(3, 20))

    assert 0.01 < found.measured <= 0.02 + 1e-6  # two tokens may move apart by the shake each
    assert found.gap == pytest.approx(MARGIN * found.measured)
    assert found.logit == pytest.approx(found.gap / 2)
    assert found.positions == 60


def test_a_shift_common_to_all_logits_is_no_difference():
    class Shifted(ToyScorer):
        def one_by_one(self, prompt, output):
            return super().one_by_one(prompt, output) + 5

    scorer = Shifted(tables()[0])
    found = measure_tolerance(scorer, read_rows(rows_of(2, 4), scorer).rows)

    assert found.gap == pytest.approx(0.0, abs=1e-5)


def test_the_sample_is_bounded_and_empty_outputs_are_passed_over():
    assert measure(0.01, rows_of(100, 100)).positions == SAMPLE_ROWS * SAMPLE_TOKENS
    assert measure(0.01, rows_of(2, 0) + rows_of(1, 3)).positions == 3
    assert measure(0.01, []).positions == 0


def test_tokens_far_below_the_best_do_not_widen_the_tolerance():
    class NoisyTail(ToyScorer):
        def one_by_one(self, prompt, output):
            rows = super().one_by_one(prompt, output)
            return torch.where(rows < rows.topk(16).values[:, -1:], rows - 3, rows)

    scorer = NoisyTail(tables()[0])
    found = measure_tolerance(scorer, read_rows(rows_of(2, 4), scorer).rows)

    assert found.gap == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("alone", [True, False])
def test_a_reading_that_is_not_finite_is_no_tolerance_of_zero(alone, value):
    class Broken(ToyScorer):
        def target(self, pairs):
            for index, rows in super().target(pairs):
                yield index, rows if alone else torch.full_like(rows, value)

        def one_by_one(self, prompt, output):
            return torch.full_like(super().one_by_one(prompt, output), value)

    scorer = Broken(tables()[0])
    rows = read_rows(rows_of(2, 4), scorer).rows
    where = "one token at a time, gives" if alone else "the target gives"
    with pytest.raises(NumericalError, match=f"^{rows[0].label}: .*{where}"):
        measure_tolerance(scorer, rows)
