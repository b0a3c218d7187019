"""A reference known only up to rounding noise: no alarm for the noise, an alarm for a fault."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from specdecode.audit.directions import centred_bets, directions
from specdecode.audit.drift import (
    LARGEST_HARMLESS,
    SAMPLE_ROWS,
    SAMPLE_TOKENS,
    _interval,
    measure_drift,
)
from specdecode.audit.eprocess import EProcess
from specdecode.audit.rows import read_rows
from specdecode.audit.run import audit_with
from specdecode.errors import NumericalError
from tests.audit.toys import ToyScorer, tables, walk

ALPHA = 0.01
TARGET, DRAFT = tables(noise=0.15)
NOISE = 0.12  # of a logit, as between batch shapes in bfloat16
NAMES = list(directions(with_draft=True))


class NoisyScorer(ToyScorer):
    """Logits carry fresh noise of `size` in every reading."""

    def __init__(self, size, draft=DRAFT):
        super().__init__(TARGET, draft)
        self._size, self._generator = size, torch.Generator().manual_seed(3)

    def target(self, pairs):
        for index, rows in super().target(pairs):
            yield index, shaken(rows, self._size, self._generator)

    def one_by_one(self, prompt, output):
        return shaken(super().one_by_one(prompt, output), self._size, self._generator)


def shaken(logits, size, generator):
    return logits + size * torch.randn(logits.shape, generator=generator, dtype=logits.dtype)


def rows_of(count, length=40, temperature=1.0):
    lines = walk(TARGET.softmax(-1), count, length, np.random.default_rng(5))
    return [
        {
            "prompt_token_ids": [int(line[0])],
            "output_token_ids": line[1:].tolist(),
            "sampling": {"temperature": temperature},
        }
        for line in lines
    ]


def measure(scorer, rows):
    return measure_drift(scorer, read_rows(rows, scorer).rows)


def bets_of_an_engine(emitted, tokens, seed):
    """Bets float64 [tokens, D]: the engine reads the target with noise, the audit with another."""
    generator = torch.Generator().manual_seed(seed)
    contexts = torch.randint(len(TARGET), (tokens,), generator=generator)
    p = shaken(TARGET[contexts], NOISE, generator).softmax(-1)
    q = DRAFT[contexts].softmax(-1)
    own = shaken(TARGET[contexts], NOISE, generator).softmax(-1)
    law = own if emitted == "target" else q
    drawn = torch.multinomial(law, 1, generator=generator).squeeze(-1)
    return centred_bets(p, drawn, q, directions(with_draft=True)).numpy()


def alarms(emitted, tokens, runs, allowances):
    found = 0
    for run in range(runs):
        process = EProcess(NAMES, ALPHA, allowances)
        process.update(bets_of_an_engine(emitted, tokens, seed=run))
        found += process.crossed_at is not None
    return found


def test_a_reading_that_repeats_itself_allows_for_nothing():
    drift = measure(ToyScorer(TARGET, DRAFT), rows_of(4))

    assert drift.positions == 4 * SAMPLE_TOKENS
    assert not drift.too_large
    assert drift.allowances(NAMES) == pytest.approx(np.zeros((len(NAMES), 2)), abs=1e-7)


def test_noise_earns_its_own_square_towards_the_draft_and_the_interval_holds_it():
    drift = measure(NoisyScorer(NOISE), rows_of(60))
    earned = bets_of_an_engine("target", 400_000, seed=1).mean(0)

    assert drift.positions == SAMPLE_ROWS * SAMPLE_TOKENS
    assert earned[0] == pytest.approx(NOISE**2, rel=0.25)
    assert drift.measured["draft"] == pytest.approx(earned[0], rel=0.25)
    for name, mean in zip(NAMES, earned, strict=True):
        assert drift.low[name] <= 0 <= drift.high[name]
        assert drift.low[name] < mean < drift.high[name]


def test_noise_is_no_evidence_where_it_is_allowed_for_and_would_be_otherwise():
    allowances = measure(NoisyScorer(NOISE), rows_of(60)).allowances(NAMES)

    assert alarms("target", 3000, 60, None) > 30
    assert alarms("target", 3000, 60, allowances) <= stats.binom.ppf(0.999, 60, ALPHA)


def test_a_real_fault_shows_through_the_noise():
    """Tokens drawn from the draft, which is hardly further from the target than its own noise.

    Noise counts for the fault as well (0.011), the allowance against it (0.018) and the draft's
    distance adds 0.017 at a variance of 0.028: 0.0018 a token, so 18 in 10 000, and 8 are needed.
    """
    allowances = measure(NoisyScorer(NOISE), rows_of(60)).allowances(NAMES)

    assert alarms("draft", 10_000, 20, allowances) >= 18


def test_greedy_rows_are_no_sample():
    assert measure(NoisyScorer(NOISE), rows_of(5, temperature=0.0)).positions == 0
    assert measure(NoisyScorer(NOISE), []).allowances(NAMES).tolist() == [[0, 0]] * len(NAMES)


def test_one_row_is_allowed_for_generously():
    drift = measure(NoisyScorer(NOISE), rows_of(1))

    for name in NAMES:
        assert drift.high[name] - drift.low[name] >= 3 * abs(drift.measured[name])


def test_without_a_draft_the_other_directions_are_measured():
    drift = measure(NoisyScorer(NOISE, draft=None), rows_of(10))

    assert sorted(drift.high) == ["flatter", "latest", "order", "repeat", "sharper", "tail"]
    assert all(math.isfinite(v) for v in drift.high.values())


def test_noise_that_could_hide_a_fault_is_said_to():
    drift = measure(NoisyScorer(0.6), rows_of(60))

    assert drift.high["draft"] > LARGEST_HARMLESS
    assert drift.too_large
    EProcess(NAMES, ALPHA, drift.allowances(NAMES)).update(
        np.full((5, len(NAMES)), -1.0)
    )  # stays positive


def test_the_interval_is_the_margin_and_three_standard_errors_over_rows():
    """Rows of 10 positions that earn 2 and 4: mean 0.3, error 0.1, so 0.3 ± (0.15 + 0.3)."""
    drift = _interval(["draft"], np.array([[2.0], [4.0]]), np.array([10.0, 10.0]))

    assert drift.measured["draft"] == pytest.approx(0.3)
    assert drift.low["draft"] == pytest.approx(-0.15)
    assert drift.high["draft"] == pytest.approx(0.75)


def rows_of_a_noisy_engine(count, length=50):
    """Replies of an engine that draws from the target's laws, read with noise of its own."""
    generator = torch.Generator().manual_seed(11)
    tokens = torch.randint(len(TARGET), (count, 1), generator=generator)
    for _ in range(length):
        law = shaken(TARGET[tokens[:, -1]], NOISE, generator).softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(law, 1, generator=generator)], dim=1)
    return [
        {
            "prompt_token_ids": [line[0]],
            "output_token_ids": line[1:],
            "sampling": {"temperature": 1.0},
        }
        for line in tokens.tolist()
    ]


def test_the_audit_itself_allows_for_the_noise_it_measures(monkeypatch):
    rows = rows_of_a_noisy_engine(120)

    def report():
        return audit_with(NoisyScorer(NOISE), {"rows": rows}, ALPHA, baseline_arm=None)["rows"]

    allowed = report()
    assert allowed.sampled["verdict"] == "lossless", allowed.reasons
    noise = allowed.sampled["noise"]
    assert noise["positions"] == SAMPLE_ROWS * SAMPLE_TOKENS
    assert noise["high"]["draft"] > noise["measured"]["draft"] > 0

    monkeypatch.setattr("specdecode.audit.drift.Drift.allowances", lambda self, names: None)
    assert report().sampled["verdict"] == "biased"  # by noise alone


def test_noise_that_could_hide_a_fault_leaves_the_audit_undecided():
    scorer = NoisyScorer(0.6)
    report = audit_with(scorer, {"rows": rows_of(60, 50)}, ALPHA, baseline_arm=None)["rows"]

    assert report.verdict == "undecided"
    assert "float32" in " ".join(report.reasons)


class BrokenScorer(ToyScorer):
    """One reading of the second row, at its fourth position, is not finite."""

    def __init__(self, reading, value):
        super().__init__(TARGET, DRAFT)
        self._reading, self._value, self._read_alone = reading, value, 0

    def _broken(self, logits):
        logits = logits.clone()
        logits[3, 5] = self._value
        return logits

    def target(self, pairs):
        for index, logits in super().target(pairs):
            yield index, self._broken(logits) if (self._reading, index) == ("many", 1) else logits

    def draft(self, pairs):
        for index, logits in super().draft(pairs):
            yield index, self._broken(logits) if (self._reading, index) == ("draft", 1) else logits

    def one_by_one(self, prompt, output):
        logits = super().one_by_one(prompt, output)
        self._read_alone += 1
        return self._broken(logits) if (self._reading, self._read_alone) == ("one", 2) else logits


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("reading", "named"),
    [("many", "the target gives"), ("one", "the target, read one token at a time, gives"),
     ("draft", "the draft gives")],
)  # fmt: skip
def test_a_reading_that_is_not_finite_is_refused_and_its_row_named(reading, named, value):
    scorer = BrokenScorer(reading, value)
    rows = read_rows(rows_of(3), scorer).rows
    with pytest.raises(NumericalError, match=f"^{rows[1].label}: {named}.*position 3"):
        measure_drift(scorer, rows)


def test_what_can_never_come_is_minus_infinity_in_every_reading_and_allowed():
    drift = measure(BrokenScorer("one", -math.inf), rows_of(3))

    assert drift.positions == 3 * SAMPLE_TOKENS
    assert all(math.isfinite(value) for value in drift.measured.values())
