"""Golden values are worked out by hand in the comments."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.measurement.metrics import (
    METRICS,
    acceptance_by_position,
    error_rate,
    finish_reasons,
    peak_memory_bytes,
    summarise_metric,
)
from tests.measurement.factories import record

# Two steps accepted nothing, one accepted 1, three accepted all 3: 6 steps, 10 of 18 accepted.
BLOCK = {
    "steps": 6,
    "drafted": 18,
    "accepted": 10,
    "acceptance_histogram": [2, 1, 0, 3],
    "target_tokens": 24,
    "output_tokens": 15,
    "output_token_ids": list(range(15)),
    "ttft_s": 0.2,
    "e2e_s": 1.6,
    "draft_s": 0.4,
    "verify_s": 0.8,
    "other_s": 0.4,
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ttft_s", 0.2),
        ("tpot_s", 0.1),  # (1.6 − 0.2) / 14
        ("e2e_s", 1.6),
        ("output_tokens", 15.0),
        ("output_tokens_per_s", 9.375),  # 15 / 1.6
        ("mean_acceptance_length", 16 / 6),  # 1 + 10/6, bonus included
        ("acceptance_rate", 10 / 18),
        ("output_tokens_per_step", 2.5),  # 15 / 6: the last block was cut by the length limit
        ("target_tokens_per_output_token", 1.6),  # 24 / 15
        ("draft_share", 0.25),
        ("verify_share", 0.5),
        ("other_share", 0.25),
        ("quality", 1.0),
    ],
)
def test_each_metric_has_its_golden_value(name, expected):
    assert METRICS[name].value(record(arm="block", **BLOCK)) == pytest.approx(expected, rel=1e-12)


def test_the_golden_table_covers_every_metric():
    marks = test_each_metric_has_its_golden_value.pytestmark[0]

    assert {name for name, _ in marks.args[1]} == set(METRICS)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tpot_s", {"output_tokens": 1, "output_token_ids": [4]}),
        ("tpot_s", {"ttft_s": None}),
        ("acceptance_rate", {"drafted": 0, "accepted": 0}),
        ("mean_acceptance_length", {"steps": 0, "acceptance_histogram": None}),
        ("mean_acceptance_length", {"steps": None}),
        ("output_tokens_per_s", {"e2e_s": 0.0}),
        ("target_tokens_per_output_token", {"output_tokens": 0, "output_token_ids": []}),
        ("quality", {"quality": None}),
    ],
)
def test_without_data_a_metric_is_null(name, changes):
    assert METRICS[name].value(record(**changes)) is None


@pytest.mark.parametrize("name", METRICS)
def test_a_failed_request_enters_no_metric(name):
    assert METRICS[name].value(record(arm="block", **BLOCK, error="NaN logits")) is None


@pytest.mark.parametrize("name", METRICS)
def test_no_rows_summarise_to_null_with_n_zero(name):
    summary = summarise_metric(METRICS[name], [])

    assert (summary.n, summary.pooled, summary.request_mean) == (0, None, None)
    assert set(summary.quantiles.values()) == {None}


def test_pooled_weighs_tokens_and_request_mean_weighs_requests():
    # 1 token in 1 s and 9 tokens in 1 s: 10/2 tokens per second pooled, (1 + 9)/2 by request;
    # seconds 1 and 3 make the two differ: 10/4 against (1 + 3)/2.
    slow = record("a", output_tokens=1, output_token_ids=[1], e2e_s=1.0)
    long = record("b", output_tokens=9, output_token_ids=[1] * 9, e2e_s=3.0)

    summary = summarise_metric(METRICS["output_tokens_per_s"], [slow, long])

    assert (summary.n, summary.pooled, summary.request_mean) == (2, 2.5, 2.0)


def test_quantiles_interpolate_between_order_statistics():
    rows = [record(f"p{i}", ttft_s=float(i), e2e_s=200.0) for i in range(101)]

    quantiles = summarise_metric(METRICS["ttft_s"], rows).quantiles

    assert quantiles == {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}


def test_acceptance_by_position_from_the_histogram():
    positions = acceptance_by_position([record(arm="block", **BLOCK)])

    assert [p.unconditional for p in positions] == [4 / 6, 3 / 6, 3 / 6]
    assert [p.conditional for p in positions] == [4 / 6, 3 / 4, 1.0]
    assert {p.steps for p in positions} == {6}


def test_a_position_nobody_reached_has_no_conditional_acceptance():
    positions = acceptance_by_position([record(acceptance_histogram=[5, 0, 0])])

    assert [p.conditional for p in positions] == [0.0, None]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), min_size=1, max_size=5))
def test_one_plus_the_positions_is_the_mean_acceptance_length(histograms):
    rows = [
        record(
            f"p{i}",
            steps=sum(h),
            accepted=sum(j * n for j, n in enumerate(h)),
            acceptance_histogram=h,
        )
        for i, h in enumerate(histograms)
    ]

    positions = acceptance_by_position(rows)
    pooled = summarise_metric(METRICS["mean_acceptance_length"], rows).pooled

    if pooled is None:
        assert positions == []
    else:
        total = 1 + math.fsum(p.unconditional for p in positions)
        assert total == pytest.approx(pooled, rel=1e-12)


def test_errors_and_finish_reasons_are_counted():
    rows = [record("a", finish_reason="length"), record("b"), record("c", error="NaN logits")]
    rows.append(record("d", finish_reason=None))

    assert error_rate(rows) == 0.25
    assert finish_reasons(rows) == {"error": 1, "length": 1, "stop": 1, "unknown": 1}
    assert error_rate([]) is None


def test_peak_memory_is_the_highest_seen_or_null():
    rows = [record("a", peak_rss_bytes=5), record("b", peak_rss_bytes=9)]

    assert peak_memory_bytes([*rows, record("c", peak_rss_bytes=None)]) == 9
    assert peak_memory_bytes([record("c", peak_rss_bytes=None)]) is None


def test_the_page_of_metrics_states_each_definition_as_in_the_code():
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
    lines = [f"| `{m.name}` | {m.better} | {m.definition} |" for m in METRICS.values()]

    assert [line for line in lines if line not in page] == []
