from __future__ import annotations

import json

import numpy as np
import pytest

from specdecode.measurement import intervals
from specdecode.measurement.records import to_table
from specdecode.measurement.summary import summarise
from tests.measurement.factories import record, run, shuffled


@pytest.fixture(scope="module", autouse=True)
def _few_resamples():
    """What is tested here is the shape of the document, not the width of intervals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "RESAMPLES", 100)
        yield


@pytest.fixture(scope="module")
def rows():
    return run(18)


@pytest.fixture(scope="module")
def summary(rows):
    return summarise(to_table(rows), seed=1)


def test_the_summary_is_plain_json_and_ignores_row_order(rows, summary):
    again = summarise(to_table(shuffled(rows, 3)), seed=1)

    assert json.dumps(again, allow_nan=False) == json.dumps(summary, allow_nan=False)


def test_every_arm_setting_and_stratum_is_there(summary):
    scopes = {(scope["by"], scope["value"]) for scope in summary["scopes"]}

    assert {("overall", None), ("sampling", "greedy"), ("sampling", "sampled")} <= scopes
    assert {("difficulty", d) for d in ("normal", "hard", "adversarial")} <= scopes
    assert {("category", "chat"), ("language", "ja")} <= scopes
    for scope in summary["scopes"]:
        assert list(scope["arms"]) == ["plain", "block", "token"]
        assert list(scope["comparisons"]) == ["block", "token"]


def test_every_stratum_has_all_quantiles_beside_their_n(rows, summary):
    scope = next(s for s in summary["scopes"] if (s["by"], s["value"]) == ("language", "en"))
    found = scope["arms"]["block"]["metrics"]["e2e_s"]
    values = [r.e2e_s for r in rows if r.arm == "block" and r.language == "en"]

    assert found["n"] == len(values)
    for name, level in (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99)):
        assert found[name] == pytest.approx(np.percentile(values, level))


def test_the_headline_holds_only_numbers_that_stand_in_the_scopes(summary):
    overall = summary["scopes"][0]
    headline = summary["headline"]["block"]

    assert headline["speed_ratio"] == overall["comparisons"]["block"]["speed_ratio"]["estimate"]
    assert (
        headline["mean_acceptance_length"]
        == (overall["arms"]["block"]["metrics"]["mean_acceptance_length"]["pooled"])
    )
    assert all(isinstance(value, int | float) for value in headline.values())
    assert "speed_ratio" not in summary["headline"]["plain"]


def test_a_stratum_of_one_prompt_has_null_intervals_and_n_zero(summary):
    scope = next(s for s in summary["scopes"] if s["value"] == "translate")

    assert scope["prompts"] == 1
    assert scope["comparisons"]["block"]["speed_ratio"] == {
        "estimate": None,
        "low": None,
        "high": None,
        "n": 0,
    }


def test_prompts_missing_in_one_arm_are_listed():
    rows = [r for r in run(4) if r.request_id != "p0002/greedy/block"]

    unpaired = summarise(to_table(rows), seed=1)["unpaired"]

    assert unpaired["block"] == {"n": 1, "requests": ["p0002/greedy"]}
    assert unpaired["token"]["n"] == 0


def test_no_rows_give_nulls_and_zero_counts():
    summary = summarise(to_table([]), seed=1)

    assert (summary["rows"], summary["prompts"], summary["arms"]) == (0, 0, ["plain"])
    plain = summary["headline"]["plain"]
    assert (plain["requests"], plain["output_tokens_per_s"], plain["quality"]) == (0, None, None)


def test_a_missing_baseline_gives_null_comparisons():
    rows = [record(p, "block") for p in "abc"]

    comparison = summarise(to_table(rows), seed=1)["scopes"][0]["comparisons"]["block"]

    assert comparison["pairs"] == 0
    assert comparison["speed_ratio"]["estimate"] is None


def test_positions_are_numbered_from_one_and_thin_strata_are_kept(summary):
    [overall] = [scope for scope in summary["scopes"] if scope["by"] == "overall"]
    positions = overall["arms"]["block"]["acceptance_by_position"]
    assert [position["position"] for position in positions] == [1, 2, 3, 4]

    [thin] = [scope for scope in summary["scopes"] if scope["value"] == "translate"]
    speed = thin["comparisons"]["block"]["speed_ratio"]
    assert (speed["estimate"], speed["n"]) == (None, 0)
