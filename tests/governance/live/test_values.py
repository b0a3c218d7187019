"""A metric's value of each request of a live stage."""

from __future__ import annotations

import numpy as np
import pytest

from specdecode.errors import EvidenceError
from specdecode.governance.live.rows import NUMBERS, read_live
from specdecode.governance.live.values import _NEEDED, lacking, row_values
from specdecode.governance.plan_metrics import PlanMetric
from specdecode.governance.tables import as_rows
from specdecode.measurement.metrics import METRICS
from specdecode.measurement.source import TableSource
from tests.governance.live.streams import ACCEPTANCE, ERRORS, LATENCY, QUALITY, WASTE, row


def read(*rows):
    return read_live(TableSource(as_rows(list(rows))))


def values(metric, *rows):
    return row_values(PlanMetric.model_validate(metric), read(*rows)).tolist()


ROWS = (
    row(0, "block", "watch"),
    row(1, "block", "watch", e2e_s=2.0, quality=0.5),
    row(2, "block", "watch", error="lost"),
    row(3, "block", "watch", e2e_s=None, quality=None, target_tokens=None),
)


@pytest.mark.parametrize(
    ("metric", "found"),
    [
        (ERRORS, [0, 0, 1, 0]),
        (LATENCY, [1, 0, 0, None]),
        (QUALITY, [1, 0.5, None, None]),
        (WASTE, [2, 2, None, None]),
        (LATENCY | {"name": "quality", "limit": 0.75}, [1, 0, 0, None]),
        (LATENCY | {"limit": 2.0}, [1, 1, 0, None]),
    ],
)
def test_failures_count_where_they_can_and_missing_numbers_nowhere(metric, found):
    assert values(metric, *ROWS) == pytest.approx(
        [np.nan if each is None else each for each in found], nan_ok=True
    )


def test_a_value_outside_its_bounds_is_refused_and_its_request_named():
    with pytest.raises(
        EvidenceError, match=r"request r00007/sampled/block is 9, outside .* 0 to 6"
    ):
        values(WASTE, *ROWS, row(7, "block", "watch", target_tokens=90))


def test_a_row_lacks_a_number_only_if_a_metric_needs_it_and_it_did_not_fail():
    metrics = [PlanMetric.model_validate(each) for each in (ERRORS, LATENCY, QUALITY)]

    assert lacking(metrics, read(*ROWS), "block").tolist() == [False, False, False, True]
    assert not lacking(metrics[:1], read(*ROWS), "block").any()


def test_of_the_other_arm_only_what_is_compared_is_needed_and_nothing_for_reports_only():
    rows = read(*(row(i, arm, "canary", e2e_s=None) for i, arm in enumerate(("plain", "block"))))
    alone = PlanMetric.model_validate(LATENCY)
    compared = PlanMetric.model_validate(
        LATENCY | {"transform": "difference", "limit": None, "bounds": {"low": 0, "high": 60}}
    )
    reported = PlanMetric.model_validate(LATENCY | {"role": "secondary"})

    assert lacking([alone], rows, "block").tolist() == [False, True]
    assert lacking([compared], rows, "block").tolist() == [True, True]
    assert not lacking([reported], rows, "block").any()


@pytest.mark.parametrize(
    ("numbers", "lacks"),
    [
        ({"steps": 0, "accepted": None, "drafted": None}, False),
        ({"steps": None, "accepted": None, "drafted": None, "output_tokens": 1}, False),
        ({"steps": None, "accepted": None, "drafted": None, "output_tokens": 2}, True),
        ({"steps": None, "accepted": None, "drafted": None, "output_tokens": None}, True),
        ({"steps": 1, "accepted": None, "output_tokens": 1}, True),
        ({"steps": None, "output_tokens": 1, "e2e_s": None}, True),
    ],
)
def test_a_reply_that_ended_before_anything_was_drafted_has_no_acceptance_to_lack(numbers, lacks):
    metrics = [PlanMetric.model_validate(each) for each in (ACCEPTANCE, LATENCY)]
    rows = read(row(0, "block", "watch", **numbers))

    assert lacking(metrics, rows, "block").tolist() == [lacks]
    assert np.isnan(row_values(metrics[0], rows)[0]) or not lacks


def test_every_metric_says_what_it_needs_and_its_formula_reads_nothing_else():
    assert set(_NEEDED) == {*METRICS, "error_rate"}
    for name, metric in METRICS.items():
        seen = set()

        class Spy:
            def __getattr__(self, field, seen=seen):
                seen.add(field)
                return 1.0

        metric.formula(Spy())
        assert seen <= set(NUMBERS)
        assert seen == set(_NEEDED[name]) or name == "quality"


def test_rows_come_in_time_order_and_names_tell_ties_apart():
    early, late = row(5, "block", "watch"), row(6, "block", "watch")
    tie = early | {"request_id": "a", "prompt_id": "a"}

    assert read(late, early, tie).ids.tolist() == [
        "a", "r00005/sampled/block", "r00006/sampled/block"
    ]  # fmt: skip


def test_a_row_without_a_time_is_known_as_such():
    assert read(ROWS[0] | {"started_at": None}, ROWS[1]).timed.tolist() == [True, False]
