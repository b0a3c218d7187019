"""Counts of drafting: what may stand beside what, and what a record may take."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.measurement.records import Record
from specdecode.workload.engines.speculation import (
    AggregateSpeculation,
    RequestSpeculation,
    histogram_of,
)
from specdecode.workload.engines.unknown import Unknown, count

NO = Unknown("no")


def of(steps=NO, drafted=NO, accepted=NO, histogram=NO, derived=None):
    return RequestSpeculation.of(
        "x", steps=steps, drafted=drafted, accepted=accepted, histogram=histogram, derived=derived
    )


class TestTold:
    @settings(deadline=None)
    @given(st.lists(st.integers(0, 6), max_size=20))
    def test_what_a_list_of_steps_gives_agrees_with_itself(self, steps):
        histogram = tuple(steps.count(n) for n in range(7))
        told = of(len(steps), 6 * len(steps), sum(steps), histogram)

        assert told.unknown == {}
        assert told.mean_acceptance_length == (1 + sum(steps) / len(steps) if steps else None)
        assert told.acceptance_rate == (sum(steps) / (6 * len(steps)) if steps else None)

    def test_a_histogram_gives_steps_and_accepted_tokens(self):
        told = of(drafted=12, histogram=(1, 0, 1, 2))

        assert (told.steps, told.accepted) == (4, 8)
        assert told.derived == {}

    def test_rates_of_what_is_not_told_are_not_told(self):
        assert of(steps=4).mean_acceptance_length is None
        assert of(drafted=4).acceptance_rate is None

    def test_zero_drafts_have_no_rate(self):
        told = of(0, 0, 0, ())

        assert (told.mean_acceptance_length, told.acceptance_rate) == (None, None)

    def test_every_none_has_its_reason(self):
        assert of(steps=4).unknown == dict.fromkeys(("drafted", "accepted", "histogram"), "no")


class TestContradictions:
    @pytest.mark.parametrize(
        "counts",
        [
            {"drafted": 3, "accepted": 4},
            {"steps": 0, "accepted": 1},
            {"steps": 0, "drafted": 1},
            {"steps": 5, "histogram": (1, 0, 1, 2)},
            {"accepted": 7, "histogram": (1, 0, 1, 2)},
        ],
    )
    def test_nothing_of_it_is_believed(self, counts):
        told = of(**counts)

        assert (told.steps, told.drafted, told.accepted, told.histogram) == (None,) * 4
        assert all("contradict" in reason for reason in told.unknown.values())

    def test_what_is_only_nearly_known_contradicts_nothing(self):
        assert of(steps=0, drafted=1, accepted=1, derived={"steps": "nearly"}).steps == 0


class TestInvariants:
    def test_none_without_a_reason_cannot_be_made(self):
        with pytest.raises(ValueError, match="without a reason"):
            RequestSpeculation("x", steps=1)

    def test_a_reason_for_what_is_known_cannot_be_given(self):
        with pytest.raises(ValueError, match="without a reason"):
            RequestSpeculation("x", 1, 1, 1, (1,), unknown={"steps": "why"})

    def test_derived_and_unknown_cannot_be_both(self):
        why = dict.fromkeys(("steps", "drafted", "accepted", "histogram"), "no")

        with pytest.raises(ValueError, match="derived"):
            RequestSpeculation("x", unknown=why, derived={"steps": "nearly"})


class TestRecords:
    def test_fields_of_a_record(self):
        record = Record(
            request_id="a/b/c",
            prompt_id="a",
            arm="c",
            stage="canary",
            sampling={"name": "b"},
            manifest_sha256="0" * 64,
            started_at=datetime.now(UTC),
            **of(4, 12, 8, (1, 0, 1, 2)).record_fields(),
        )

        assert (record.steps, record.drafted, record.accepted) == (4, 12, 8)
        assert record.acceptance_histogram == [1, 0, 1, 2]

    def test_what_is_only_nearly_known_stays_null(self):
        assert of(4, 12, 8, derived={"steps": "nearly"}).record_fields() == {
            "steps": None,
            "drafted": 12,
            "accepted": 8,
            "acceptance_histogram": None,
        }

    def test_counts_of_a_server_cannot_become_a_record(self):
        assert not hasattr(AggregateSpeculation.nothing("x", "no"), "record_fields")

    def test_scope_is_part_of_the_type(self):
        assert (RequestSpeculation.scope, AggregateSpeculation.scope) == (
            "per_request",
            "aggregate",
        )


class TestHistogramOf:
    @pytest.mark.parametrize(
        ("value", "length", "expected"),
        [
            ([1, 0, 2], None, (1, 0, 2)),
            ({"0": 1, "2": 2}, None, (1, 0, 2)),
            ({0: 1, 2: 2}, 3, (1, 0, 2, 0)),
            ({}, 2, (0, 0, 0)),
            ([], None, ()),
            ([1.0, 2.0], None, (1, 2)),
        ],
    )
    def test_every_way_to_write_it(self, value, length, expected):
        assert histogram_of(value, "h", length) == expected

    @pytest.mark.parametrize(
        "value",
        [
            None,
            "12",
            3,
            [1, -1],
            [1, None],
            [True],
            [0.5],
            {"x": 1},
            {"-1": 1},
            {"1.0": 1},
            {"0": 1, 0: 2},
            {"99999": 1},
            {True: 1},
            [0] * 5000,
            {"4097": 1},
        ],
    )
    def test_what_is_none(self, value):
        assert isinstance(histogram_of(value, "h"), Unknown)


class TestCount:
    @pytest.mark.parametrize(("value", "expected"), [(0, 0), (3, 3), (3.0, 3)])
    def test_counts(self, value, expected):
        assert count(value, "x") == expected
        assert type(count(value, "x")) is int

    @pytest.mark.parametrize(
        "value", [None, True, "3", -1, 0.5, float("nan"), float("inf"), 2**60, []]
    )
    def test_no_counts(self, value):
        assert isinstance(count(value, "x"), Unknown)
