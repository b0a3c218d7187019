"""What the bench computes from its rows, on rows whose answers are known."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from pipelines.bench.arms import Outcome
from pipelines.bench.growth import _alpha, _series
from pipelines.bench.table import _expected
from pipelines.bench.turns import BenchPrompt, mean_length, per_token_ms, speed_ratio, take_turns
from specdecode.decoding import StepTrace
from specdecode.errors import ConfigError

PROMPTS = [BenchPrompt(f"p{i}", [1, 2, 3]) for i in range(6)]


class FixedArm:
    """Takes so many seconds a token, and a second more before the first."""

    def __init__(self, name, per_token, log):
        self.name, self.per_token, self.log = name, per_token, log

    def run(self, prompt, tokens, temperature, seed):
        self.log.append((self.name, temperature, seed))
        decoding = self.per_token * (tokens - 1) * (1 + seed)  # prompts differ, arms alike
        return Outcome(tokens, 1 + decoding, decoding, steps=tokens, drafted=9, accepted=tokens)


def rows(log=None):
    log = [] if log is None else log
    arms = [FixedArm("slow", 0.3, log), FixedArm("fast", 0.1, log)]
    return take_turns("s", arms, PROMPTS, (0.0, 1.0), tokens=11)


def test_arms_take_turns_at_going_first():
    log = []
    rows(log)

    measured = log[2:]  # the first call of each arm warms up
    firsts = [measured[i][0] for i in range(0, len(measured), 2)]
    assert firsts == ["slow", "slow", "fast", "fast"] * 3
    assert all(measured[i][1:] == measured[i + 1][1:] for i in range(0, len(measured), 2))


def test_the_ratio_of_decoding_leaves_the_prompt_out():
    found = speed_ratio(rows(), "slow", "fast", 1.0, decoding_only=True)

    assert found == {"ratio": 3.0, "low": 3.0, "high": 3.0, "n": 6}


def test_the_ratio_with_the_prompt_is_diluted_by_it():
    found = speed_ratio(rows(), "slow", "fast")

    total = [(1 + 3 * (1 + i)) / (1 + 1 * (1 + i)) for i in range(6)]
    assert min(total) < found["low"] <= found["ratio"] <= found["high"] < max(total)
    assert found["n"] == 6


def test_rows_of_another_temperature_do_not_count():
    some = [row for row in rows() if row["temperature"] == 0.0]

    with pytest.raises(ConfigError, match="fewer than two prompts"):
        speed_ratio(some, "slow", "fast", 1.0)


def test_an_arm_that_does_not_tell_its_decoding_time_is_refused():
    silent = [{**row, "decoding_s": None} for row in rows()]

    with pytest.raises(ConfigError, match="'slow'"):
        speed_ratio(silent, "slow", "fast", decoding_only=True)


def test_means_over_replies():
    assert per_token_ms(rows(), "fast", 0.0) == pytest.approx(1e3 * (6 + 21) / 66, abs=1e-3)
    assert mean_length(rows(), "fast", 0.0) == 2.0


def test_expected_tokens_of_the_papers_toy():
    # Context-free, target (1/3, 2/3), draft (2/3, 1/3), γ 2: 10/9 and 11/9, and a bonus token.
    target, draft = (Fraction(1, 3), Fraction(2, 3)), (Fraction(2, 3), Fraction(1, 3))
    token = block = 0.0
    for x in product(range(2), repeat=2):
        weight = float(draft[x[0]] * draft[x[1]])
        step = StepTrace(
            1, 0, x, tuple(float(draft[i]) for i in x), tuple(float(target[i]) for i in x),
            (0.5, 0.5), 0.5, 0, (0,), 0.0, 0.0, 0.0,
        )  # fmt: skip
        expected = _expected(step)
        token, block = token + weight * expected[0], block + weight * expected[1]

    assert token == pytest.approx(1 + 10 / 9)
    assert block == pytest.approx(1 + 11 / 9)


@pytest.mark.parametrize("gamma", [1, 4, 12])
@pytest.mark.parametrize("alpha", [0.05, 0.6, 0.97])
def test_alpha_is_read_off_the_mean_length(alpha, gamma):
    assert _alpha(_series(alpha, gamma), gamma) == pytest.approx(alpha, abs=1e-9)
