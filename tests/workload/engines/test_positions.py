"""A histogram from counters per draft position, against one that is counted directly."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.workload.engines.metrics_text import parse_metrics
from specdecode.workload.engines.positions import histogram_by_position
from specdecode.workload.engines.unknown import Unknown

POS = ("pos",)


def scrape(reached, name="pos", label="position"):
    lines = [f'{name}_total{{{label}="{p}"}} {n}' for p, n in enumerate(reached)]
    return parse_metrics("\n".join([*lines, "other 1", ""]))


def reached_by(steps, length):
    return [sum(accepted > place for accepted in steps) for place in range(length)]


def read(before, after, steps, accepted, appear=False):
    return histogram_by_position(before, after, POS, steps, accepted, appear=appear)


@settings(deadline=None)
@given(
    st.integers(1, 5).flatmap(
        lambda length: st.tuples(
            st.just(length),
            st.lists(st.integers(0, length), max_size=12),
            st.lists(st.integers(0, length), max_size=12),
        )
    )
)
def test_equals_what_is_counted_directly(case):
    length, earlier, steps = case
    before, after = reached_by(earlier, length), reached_by(earlier + steps, length)

    told = read(scrape(before), scrape(after), len(steps), sum(steps))

    assert told == tuple(steps.count(n) for n in range(length + 1))


def test_positions_that_appear_with_the_first_request():
    nothing = parse_metrics("other 1\n")

    assert read(nothing, scrape([3, 3, 2]), 4, 8, appear=True) == (1, 0, 1, 2)
    assert isinstance(read(nothing, scrape([3, 3, 2]), 4, 8, appear=False), Unknown)


def test_nothing_accepted_and_no_positions_shown():
    nothing = parse_metrics("other 1\n")

    assert read(nothing, nothing, 4, 0, appear=True) == (4,)
    assert isinstance(read(nothing, nothing, 4, 1, appear=True), Unknown)


def refused(reached, steps, accepted, **options):
    told = read(scrape([0] * len(reached), **options), scrape(reached, **options), steps, accepted)
    assert isinstance(told, Unknown)
    return told.reason


def test_a_later_position_accepted_more_often():
    assert "more steps at a position" in refused([2, 3], 4, 5)


def test_more_at_the_first_position_than_there_were_steps():
    assert "more steps at a position" in refused([5], 4, 5)


def test_positions_that_do_not_add_up():
    assert "adds up to 5" in refused([3, 2], 4, 6)


def test_positions_that_are_not_named():
    assert "no number" in refused([3], 4, 3, label="place")


def test_a_position_that_is_missing():
    holes = parse_metrics('pos_total{position="0"} 3\npos_total{position="2"} 1\n')

    assert "every position" in read(holes, holes, 0, 0).reason


def test_a_reset_of_the_positions_alone():
    assert "reset" in read(scrape([5]), scrape([4]), 4, 3).reason
