import pytest

from specdecode.errors import ConfigError
from specdecode.statistics.binomial import excess_p_value, proportion_interval


def test_the_interval_of_no_successes_reaches_up_to_the_exact_bound():
    interval = proportion_interval(0, 10)

    assert interval is not None
    assert interval.low == 0.0
    assert interval.high == pytest.approx(1 - 0.025 ** (1 / 10))


def test_no_trials_give_no_interval_and_no_comparison():
    assert proportion_interval(0, 0) is None
    assert excess_p_value(0, 0, 1, 10) is None
    assert excess_p_value(1, 10, 0, 0) is None


def test_only_an_excess_over_the_control_is_significant():
    assert excess_p_value(20, 100, 2, 100) < 0.001
    assert excess_p_value(2, 100, 20, 100) > 0.99
    assert excess_p_value(5, 100, 5, 100) > 0.5


def test_more_successes_than_trials_are_refused():
    with pytest.raises(ConfigError, match="impossible"):
        proportion_interval(3, 2)
