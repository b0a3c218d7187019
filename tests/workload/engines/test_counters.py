"""Differences of counters: exact when the server lived on, unknown when it did not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.workload.engines.counters import moved, restarted
from specdecode.workload.engines.metrics_text import parse_metrics
from specdecode.workload.engines.unknown import Unknown

A = ("a", "old_a")


def scrape(*lines):
    return parse_metrics("".join(f"{line}\n" for line in lines))


class TestMoved:
    @settings(deadline=None)
    @given(
        st.dictionaries(
            st.integers(0, 7), st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1
        )
    )
    def test_is_the_sum_over_labels(self, engines):
        before = scrape(*(f'a_total{{e="{e}"}} {was}' for e, (was, _) in engines.items()))
        after = scrape(*(f'a_total{{e="{e}"}} {was + by}' for e, (was, by) in engines.items()))

        assert restarted(before, after, [A]) is None
        assert moved(before, after, A) == sum(by for _, by in engines.values())

    def test_labels_that_occur_for_the_first_time_count_from_zero(self):
        before, after = scrape('a_total{e="0"} 1'), scrape('a_total{e="0"} 2', 'a_total{e="1"} 5')

        assert moved(before, after, A) == 6

    def test_a_counter_without_series_is_at_zero(self):
        before, after = scrape("# TYPE a_total counter"), scrape("a_total 5")

        assert restarted(before, after, [A]) is None
        assert moved(before, after, A) == 5

    def test_absent_before_is_zero_only_where_the_engine_hides_zeros(self):
        before, after = scrape("b_total 1"), scrape("a_total 5")

        assert isinstance(moved(before, after, A), Unknown)
        assert moved(before, after, A, absent_is_zero=True) == 5

    def test_absent_in_both_is_not_zero(self):
        nothing = scrape("b_total 1")

        assert isinstance(moved(nothing, nothing, A, absent_is_zero=True), Unknown)

    def test_renamed_between_the_readings(self):
        told = moved(scrape("old_a_total 5"), scrape("a_total 9"), A, absent_is_zero=True)

        assert isinstance(told, Unknown)
        assert "old_a_total" in told.reason

    def test_an_old_name_in_both_is_as_good(self):
        assert moved(scrape("old_a_total 5"), scrape("old_a_total 9"), A) == 4

    @pytest.mark.parametrize(
        ("was", "now"), [("NaN", "1"), ("1", "NaN"), ("1", "+Inf"), ("0", "0.5")]
    )
    def test_what_is_no_number_gives_none(self, was, now):
        before, after = scrape(f"a_total {was}"), scrape(f"a_total {now}")

        assert isinstance(moved(before, after, A), Unknown)


class TestRestarted:
    def test_a_counter_that_went_back(self):
        assert "it was reset" in restarted(scrape("a_total 5"), scrape("a_total 4"), [A])

    def test_one_engine_of_several_is_enough(self):
        before = scrape('a_total{e="0"} 5', 'a_total{e="1"} 5')
        after = scrape('a_total{e="0"} 50', 'a_total{e="1"} 4')

        assert "e=1" in restarted(before, after, [A])

    def test_a_series_that_vanished(self):
        before = scrape('a_total{e="0"} 5', 'a_total{e="1"} 5')

        assert "vanished" in restarted(before, scrape('a_total{e="0"} 6'), [A])

    def test_a_process_that_started_again_though_its_counters_are_larger_now(self):
        before = scrape("process_start_time_seconds 1", "a_total 5")
        after = scrape("process_start_time_seconds 2", "a_total 50")

        assert "started again" in restarted(before, after, [A])

    def test_a_counter_that_was_created_again_though_it_is_larger_now(self):
        before, after = scrape("a_created 1", "a_total 5"), scrape("a_created 2", "a_total 50")

        assert "created again" in restarted(before, after, [A])

    def test_a_counter_of_another_server(self):
        assert restarted(scrape("a_total 5"), scrape("b_total 5"), [A]) is not None

    def test_the_same_reading_twice_is_no_restart(self):
        same = scrape("process_start_time_seconds 1", "a_created 1", "a_total 5")

        assert restarted(same, same, [A]) is None
        assert moved(same, same, A) == 0
