import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specdecode.errors import ConfigError
from specdecode.statistics.drift import STAKES, Cusum, EDetector, detector_paths

unit_lists = st.lists(st.floats(0, 1), min_size=1, max_size=40)
kinds = st.sampled_from(["shiryaev-roberts", "cusum"])


@given(unit_lists, st.floats(0.05, 0.95), kinds, st.sampled_from(["less", "greater"]))
def test_log_form_equals_the_recursion(values, m0, kind, side):
    detector = EDetector(m0, average_run_length=1e6, kind=kind, side=side)
    wealth = np.zeros(len(STAKES))
    expected = []
    for x in values:
        bet, room = (m0 - x, 1 - m0) if side == "less" else (x - m0, m0)
        growth = 1 + np.array(STAKES) / room * bet
        wealth = growth * (1 + wealth if kind == "shiryaev-roberts" else np.maximum(1, wealth))
        expected.append(wealth.mean())

    assert np.allclose(np.exp(detector.update(values)), expected, rtol=1e-9)


@given(unit_lists, st.lists(st.integers(0, 40), max_size=4), kinds)
def test_blocks_give_what_the_whole_gives(values, cuts, kind):
    whole, stream = (EDetector(0.9, average_run_length=20, kind=kind) for _ in range(2))
    path = whole.update(values)
    parts = [stream.update(block) for block in np.split(np.array(values), sorted(cuts))]

    assert np.allclose(np.concatenate(parts), path, atol=1e-9)
    assert (stream.n, stream.alarm_at) == (whole.n, whole.alarm_at)


@pytest.mark.parametrize("side", ["less", "greater"])
def test_the_sum_of_all_bets_grows_by_one_a_value_while_all_is_well(side):
    """Exact enumeration: E[M_t] = t for e-SR, never more for e-CUSUM or well inside the bound."""
    expected = {("shiryaev-roberts", 0.8): 0.0, ("cusum", 0.8): 0.0, ("shiryaev-roberts", 0.9): 0.0}
    for bits in itertools.product((0.0, 1.0), repeat=8):
        for kind, mean in expected:
            data = np.array(bits) if side == "less" else 1 - np.array(bits)
            m0 = 0.8 if side == "less" else 0.2
            detector = EDetector(m0, average_run_length=100, side=side, kind=kind)
            chance = mean ** sum(bits) * (1 - mean) ** (8 - sum(bits))
            expected[kind, mean] += chance * math.exp(detector.update(data)[-1])

    assert expected["shiryaev-roberts", 0.8] == pytest.approx(8.0, abs=1e-9)
    assert expected["cusum", 0.8] < 8.0
    assert expected["shiryaev-roberts", 0.9] < 8.0


@pytest.mark.parametrize("kind", ["shiryaev-roberts", "cusum"])
def test_the_mean_run_to_a_false_alarm_is_at_least_the_stated_one(kind):
    """Runs cut off at 4 000 count as 4 000, which can only lower the measured mean."""
    rng = np.random.default_rng(0)
    stated, runs = 200, []
    for _ in range(150):
        detector = EDetector(0.9, average_run_length=stated, kind=kind)
        while detector.alarm_at is None and detector.n < 4000:
            detector.update(rng.binomial(1, 0.9, size=250))
        runs.append(detector.alarm_at or 4000)

    highest = np.mean(runs) + stats.norm.ppf(0.999) * np.std(runs) / math.sqrt(len(runs))
    assert highest >= stated


def test_a_drop_after_a_long_healthy_run_is_found_soon():
    rng = np.random.default_rng(1)
    healthy, broken = rng.binomial(1, 0.97, size=5000), rng.binomial(1, 0.7, size=200)
    detector = EDetector(0.95, average_run_length=100_000)

    detector.update(healthy)
    assert detector.alarm_at is None
    detector.update(broken)
    assert detector.alarm_at is not None
    assert detector.alarm_at < 5060


def test_an_alarm_stays_where_it_was_raised():
    detector = EDetector(0.9, average_run_length=50)
    detector.update([0.0] * 20)
    raised = detector.alarm_at
    path = detector.update([1.0] * 200)

    assert raised is not None
    assert path[-1] < math.log(50)
    assert detector.alarm_at == raised


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=20))
def test_the_sum_is_never_below_the_maximum(increments):
    data = np.array(increments)

    assert (detector_paths(data) >= detector_paths(data, kind="cusum") - 1e-12).all()


class TestCusum:
    @given(
        st.lists(st.floats(-5, 5), min_size=1, max_size=40),
        st.lists(st.integers(0, 40), max_size=3),
        st.sampled_from(["less", "greater"]),
    )
    def test_blocks_follow_the_recursion(self, values, cuts, side):
        watch = Cusum(0.5, allowance=0.25, threshold=3, side=side)
        parts = [watch.update(block) for block in np.split(np.array(values), sorted(cuts))]
        level, expected, alarm = 0.0, [], None
        for n, x in enumerate(values, start=1):
            level = max(0.0, level + (0.5 - x if side == "less" else x - 0.5) - 0.25)
            expected.append(level)
            if alarm is None and level > 3 + 1e-9:
                alarm = n

        assert np.allclose(np.concatenate(parts), expected, atol=1e-9)
        if all(abs(level - 3) > 1e-9 for level in expected):
            assert watch.alarm_at == alarm

    def test_a_shift_below_the_allowance_never_alarms(self):
        watch = Cusum(10.0, allowance=1.0, threshold=5.0)
        watch.update([9.2] * 1000)

        assert watch.alarm_at is None
        watch.update([7.0] * 4)
        assert watch.alarm_at == 1003


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EDetector(1.0, average_run_length=10), "m0"),
        (lambda: EDetector(0.5, average_run_length=1), "average_run_length"),
        (lambda: EDetector(0.5, average_run_length=10, side="low"), "side must be"),
        (lambda: Cusum(0.5, allowance=0, threshold=1, side="low"), "side must be"),
        (lambda: EDetector(0.5, average_run_length=10, stakes=()), "stake"),
        (lambda: EDetector(0.5, average_run_length=10, stakes=(1.0,)), "stake"),
        (lambda: EDetector(0.5, average_run_length=10).update([2.0]), "value 0 is 2.0"),
        (lambda: Cusum(0.5, allowance=-1, threshold=1), "allowance"),
        (lambda: Cusum(0.5, allowance=0, threshold=0), "threshold"),
        (lambda: Cusum(0.5, allowance=0, threshold=1).update([math.nan]), "value 0"),
    ],
)
def test_impossible_input_is_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
