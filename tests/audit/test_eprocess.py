import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specdecode.audit.directions import centred_bets, directions
from specdecode.audit.eprocess import (
    MAX_POINTS,
    STAKES,
    EProcess,
    log_growth,
    log_mixture,
    weights_of,
)
from specdecode.errors import ConfigError
from tests.audit.toys import (
    argmax_of_target,
    bet_table,
    from_draft,
    from_target,
    greedy_draft_declared_as_softmax,
    half_temperature,
    log_evidence,
    residual_is_target,
    tables,
    top_k,
    walk,
)

ALPHA = 0.01


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_expected_evidence_under_the_target_is_exactly_one(seed, filtered):
    """All sequences of 6 tokens over 4 ids, context-dependent laws, enumerated."""
    target, draft = tables(vocab=4, noise=1.5, seed=seed)
    p = (top_k(target, 2) if filtered else target).softmax(-1)
    bets = bet_table(p, draft.softmax(-1))
    expected = 0.0
    for tokens in itertools.product(range(4), repeat=6):
        path = np.array([0, *tokens])
        probability = float(np.prod(p.numpy()[path[:-1], path[1:]]))
        if probability:
            wealth = log_growth(bets[path[:-1], path[1:]]).sum(0)
            weights = weights_of(list(directions(with_draft=True)))
            expected += probability * math.exp(log_mixture(wealth, weights))

    assert expected == pytest.approx(1.0, abs=1e-12)


def test_a_correct_sampler_is_called_biased_in_at_most_alpha_of_400_runs():
    target, draft = tables()
    p, q = target.softmax(-1), draft.softmax(-1)
    alpha = 0.05
    tokens = walk(from_target(p, q), 400, 800, np.random.default_rng(7))
    alarms = int((log_evidence(tokens, p, q).max(1) >= math.log(1 / alpha)).sum())

    # P(more alarms than this | rate = alpha) < 0.001; looking after every token is allowed for.
    assert alarms <= stats.binom.ppf(0.999, 400, alpha)


@pytest.mark.parametrize(
    ("fault", "within"),
    [
        (from_draft, 800),
        (residual_is_target, 2500),
        (argmax_of_target, 100),
        (greedy_draft_declared_as_softmax, 500),
        (half_temperature, 150),
    ],
)
def test_a_planted_fault_is_found_in_every_run(fault, within):
    target, draft = tables()
    p, q = target.softmax(-1), draft.softmax(-1)
    tokens = walk(fault(p, q), 20, within, np.random.default_rng(11))

    assert (log_evidence(tokens, p, q).max(1) >= math.log(1 / ALPHA)).all()


def test_argmax_under_temperature_one_is_found_without_knowing_the_draft():
    p = tables()[0].softmax(-1)
    tokens = walk(argmax_of_target(p, p), 20, 100, np.random.default_rng(3))

    assert (log_evidence(tokens, p, None).max(1) >= math.log(1 / ALPHA)).all()


bets_lists = st.lists(st.tuples(st.floats(-1, 2), st.floats(-1, 2)), min_size=1, max_size=40).map(
    np.array
)


@given(bets_lists, st.integers(1, 40))
def test_reading_in_pieces_equals_reading_at_once(bets, cut):
    whole, pieces = EProcess(["a", "b"], ALPHA), EProcess(["a", "b"], ALPHA)
    whole.update(bets)
    pieces.update(bets[:cut])
    pieces.update(bets[cut:])

    assert pieces.log_e == pytest.approx(whole.log_e)
    assert pieces.max_log_e == pytest.approx(whole.max_log_e)
    assert pieces.crossed_at == whole.crossed_at
    assert [p[0] for p in pieces.points] == [p[0] for p in whole.points]


@given(bets_lists)
def test_log_form_equals_the_product_form(bets):
    process = EProcess(["a", "b"], ALPHA)
    process.update(bets)
    products = [np.prod(1 + stake * bets, axis=0) for stake in STAKES]

    assert math.exp(process.log_e) == pytest.approx(float(np.mean(products)), rel=1e-9)


def test_the_first_crossing_is_kept_when_the_evidence_falls_again():
    process = EProcess(["a"], ALPHA)
    first = process.update(np.full((60, 1), 1.0))
    assert first is not None
    assert process.crossed_at == first + 1
    process.update(np.full((5000, 1), 0.0))
    process.update(np.full((400, 1), -0.9))

    assert process.crossed_at == first + 1
    assert process.max_log_e >= process.threshold


@pytest.mark.parametrize(
    ("bets", "expected"), [([0.0, 0.5], "towards 'b'"), ([-0.5, 0.0], "away from 'a'")]
)
def test_the_bet_behind_a_crossing_is_the_one_that_led_then(bets, expected):
    process = EProcess(["a", "b"], ALPHA)
    # What leads at the end of the same tokens is another one, and says nothing about the alarm.
    process.update(np.concatenate([np.tile(bets, (200, 1)), np.tile([1.0, -0.5], (3000, 1))]))

    assert max(process.by_direction, key=lambda name: process.by_direction[name]) == "a"
    assert process.crossed_at is not None
    assert process.crossed_at < 200
    assert process.crossed_by == expected


def test_the_curve_stays_small_and_ends_at_the_newest_token():
    process = EProcess(["a"], ALPHA)
    rng = np.random.default_rng(0)
    for _ in range(40):
        process.update(rng.uniform(-0.5, 0.5, size=(333, 1)))

    points = process.points
    assert len(points) <= MAX_POINTS
    assert points[-1] == (40 * 333, pytest.approx(process.log_e))
    assert [tokens for tokens, _ in points] == sorted({tokens for tokens, _ in points})


@pytest.mark.parametrize("others", range(12))
@pytest.mark.parametrize("main", [["sharper", "flatter"], ["draft", "sharper", "flatter"]])
def test_no_tokens_are_no_evidence(main, others):
    """Exactly none: whoever checks a bundle finds the evidence above its maximum otherwise."""
    names = [*main, *map(str, range(others))]
    process = EProcess(names, ALPHA)
    process.update(np.empty((0, len(names))))

    assert process.log_e == process.max_log_e == 0.0
    assert process.tokens_read == 0
    assert process.crossed_at is None


def test_malformed_bets_are_refused():
    process = EProcess(["a"], ALPHA)
    with pytest.raises(ConfigError, match="outside"):
        process.update(np.array([[np.nan]]))
    with pytest.raises(ConfigError, match="outside"):
        process.update(np.array([[2.5]]))
    with pytest.raises(ConfigError, match="shape"):
        process.update(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="alpha"):
        EProcess(["a"], 1.0)
    with pytest.raises(ConfigError, match="direction"):
        EProcess([], 0.1)


@pytest.mark.parametrize("mean", [-0.05, 0.04])
def test_a_mean_as_large_as_is_allowed_for_is_no_evidence_on_average(mean):
    """All sequences of 8 bets, each -1/2 or 1, enumerated; the far end is met with equality."""
    likely = (mean + 0.5) / 1.5
    allowance = np.array([[min(mean, 0.0), max(mean, 0.0)]])
    expected = {"allowed": 0.0, "free": 0.0}
    for bets in itertools.product([-0.5, 1.0], repeat=8):
        won = bets.count(1.0)
        probability = likely**won * (1 - likely) ** (8 - won)
        column = np.array(bets)[:, None]
        for name, allowances in (("allowed", allowance), ("free", None)):
            wealth = log_growth(column, allowances).sum(0)
            stakes = np.array(STAKES) * mean > 0  # those that gain by this mean
            expected[name] += probability * np.exp(wealth[:, stakes]).mean()

    assert expected["allowed"] == pytest.approx(1.0, abs=1e-12)
    assert expected["free"] > 1.01


def test_without_an_allowance_the_same_law_is_evidence():
    bets = np.full((4000, 1), 0.01)
    free, allowed = EProcess(["a"], ALPHA), EProcess(["a"], ALPHA, np.array([[-0.002, 0.01]]))
    free.update(bets)
    allowed.update(bets)

    assert free.crossed_at is not None
    assert allowed.log_e <= 0


@pytest.mark.parametrize(
    "allowances",
    [[[0.1, 0.1]], [[0.0, -0.1]], [[0.0, 0.3]], [[math.nan, 0.0]], [[0.0, 0.0]] * 2, [0.0, 0.0]],
)
def test_malformed_allowances_are_refused(allowances):
    with pytest.raises(ConfigError, match="allowances"):
        EProcess(["a"], ALPHA, np.array(allowances))


def test_rows_that_sum_to_one_up_to_float32_rounding_are_not_malformed():
    """A token outside the tail: g is 0 there, and the mean of g is 1 / 0.999998.

    Such are the sums of float32 rows over 49 152 tokens.
    """
    chosen = directions(with_draft=False)
    law = torch.tensor([[0.98, 0.02]]) * (1 - 2e-6)
    bets = centred_bets(law, torch.tensor([0]), None, chosen).numpy()

    assert EProcess(list(chosen), ALPHA).update(bets) is None
