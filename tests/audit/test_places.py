"""Bets on one place of a step, enumerated over every run of a small speculative decoder."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

from specdecode.audit.directions import centred_bets, directions
from specdecode.audit.eprocess import EProcess, log_growth, log_mixture, weights_of
from specdecode.audit.places import gated, gated_names, places, steps_of
from specdecode.errors import DataValidationError
from tests.audit.toys import bet_table, tables, walk

NAMES = ["draft", "sharper", "flatter"]
GAMMA, LENGTH = 2, 4


def step(drafted, accepted, emitted):
    return {"draft_tokens": drafted, "num_accepted": accepted, "emitted": emitted}


def block_keep(p, q):
    """h of block verification for draft tokens 1..γ at laws p, q [γ+1, V] of one path."""

    def acceptance(path):
        ratio, kept = [1.0], []
        for i, token in enumerate(path):
            ratio.append(min(1.0, ratio[-1] * p[i][token] / q[i][token]))
        for i in range(1, len(path) + 1):
            if i == len(path):
                kept.append(ratio[i])
                continue
            left = np.clip(ratio[i] * p[i] - q[i], 0, None).sum()
            kept.append(left / (left + 1 - ratio[i]) if left + 1 - ratio[i] > 0 else 1.0)
        return ratio, kept

    return acceptance


def outcomes(rule, start, p, q):
    """All (drafted, accepted, emitted, probability) of one step from the last token `start`."""
    vocab = len(p)
    for drafted in itertools.product(range(vocab), repeat=GAMMA):
        context = [start, *drafted]
        at = [p[last] for last in context]
        by = [q[last] for last in context]
        chance = math.prod(by[i][token] for i, token in enumerate(drafted))
        if rule == "token":
            keep = [min(1.0, at[i][t] / by[i][t]) for i, t in enumerate(drafted)]
            alive = [1.0, *np.cumprod(keep)]
            accepted = [alive[i] * (1 - keep[i]) for i in range(GAMMA)] + [alive[-1]]
            ratio = [1.0] * (GAMMA + 1)
        else:
            ratio, keep = block_keep(at, by)(drafted)
            later = [math.prod(1 - h for h in keep[i:]) for i in range(GAMMA + 1)]
            accepted = [later[0]] + [keep[i - 1] * later[i] for i in range(1, GAMMA + 1)]
        for count, probability in enumerate(accepted):
            if count == GAMMA:
                last_law = at[count]
            else:
                left = np.clip(ratio[count] * at[count] - by[count], 0, None)
                last_law = left / left.sum() if left.sum() > 0 else at[count]
            for token in range(vocab):
                weight = chance * probability * last_law[token]
                if weight > 0:
                    yield step(list(drafted), count, [*drafted[:count], token]), weight


@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize("seed", [0, 1])
def test_bets_on_a_place_are_fair_under_a_lossless_rule(rule, seed):
    """E[wealth] = 1 over all runs of two steps and of the law of the tokens they may emit."""
    target, draft = tables(vocab=3, noise=1.5, seed=seed)
    p, q = target.softmax(-1).numpy(), draft.softmax(-1).numpy()
    bets = bet_table(target.softmax(-1), draft.softmax(-1))[..., :3]
    names = [*NAMES, *gated_names(NAMES)]
    weights = weights_of(names)
    expected, total, gated_bets = 0.0, 0.0, 0
    for first, one in outcomes(rule, 0, p, q):
        for second, two in outcomes(rule, first["emitted"][-1], p, q):
            output = [*first["emitted"], *second["emitted"]]
            steps = steps_of({"trace": [first, second]}, output, "row 0")
            path = np.array([0, *output])
            where = places(steps, len(output), rule)
            columns, made = gated(bets[path[:-1], path[1:]], NAMES, where)
            wealth = log_growth(columns, made=made).sum(0)
            expected += one * two * math.exp(log_mixture(wealth, weights))
            total += one * two
            gated_bets += int(made[:, len(NAMES) :].any())

    assert total == pytest.approx(1.0)
    assert gated_bets > 0
    assert expected == pytest.approx(1.0, abs=1e-10)


def test_betting_on_the_place_of_the_replacement_would_not_be_fair():
    """Why it is no gate: given that a token was rejected, its successor follows the residual."""
    target, draft = tables(vocab=3, noise=1.5)
    p, q = target.softmax(-1).numpy(), draft.softmax(-1).numpy()
    bets = bet_table(target.softmax(-1), draft.softmax(-1))[..., 0]
    mean = sum(
        weight * bets[0, one["emitted"][0]]
        for one, weight in outcomes("token", 0, p, q)
        if one["num_accepted"] == 0
    )
    assert abs(mean) > 1e-3


def test_places_follow_from_the_steps_before():
    trace = [
        step([1, 2], 2, [1, 2, 3]),
        step([4, 5], 1, [4, 6]),
        step([7], 0, [8]),
        step([], 0, [9]),
    ]
    output = [1, 2, 3, 4, 6, 8, 9, 0]  # an end token that no step emitted was restored
    steps = steps_of({"trace": json.dumps(trace)}, output[:-1], "row 0")
    found = places(steps, len(output), "token")

    assert found == [
        "first", "inside", "bonus", "first", "inside", "after rejection", "after rejection",
        "unknown",
    ]  # fmt: skip


def test_steps_of_a_rule_that_looks_further_ahead_are_not_looked_at():
    steps = steps_of({"trace": [step([1], 1, [1, 2])]}, [1, 2], "row 0")

    assert places(steps, 2, "greedy-block") == places(steps, 2, None) == ["unknown"] * 2


@pytest.mark.parametrize(
    ("output", "starts"),
    [([1, 2, 3], [0, 2]), ([9, 1, 2, 3], [1, 3]), ([1, 2], [0, 2]), ([9, 1, 2], [1, 3])],
)
def test_the_prompt_s_own_token_comes_before_the_steps_and_an_end_token_may_be_left_out(
    output, starts
):
    trace = [step([1], 1, [1, 2]), step([4], 0, [3])]

    assert [s.start for s in steps_of({"trace": trace}, output, "row 0")] == starts


@pytest.mark.parametrize(
    ("trace", "named"),
    [
        ("[", "not JSON"),
        ([{"emitted": [1]}], r"trace\[0\] needs draft_tokens"),
        ([step([1], 2, [1, 2])], "cannot be"),
        ([step([1], 0, [1, 2])], "cannot be"),
        ([step([1], 1, [1, 3])], "not the 2 of output_token_ids"),
        ([{**step([1], 1, [1, 2]), "accept_coins": [0.1, 0.2]}], "2 accept_coins for 1"),
        ([{**step([1], 1, [1, 2]), "draft_probs": [1.5]}], r"inside \[0, 1\]"),
    ],
)
def test_a_trace_that_does_not_fit_its_output_is_refused(trace, named):
    with pytest.raises(DataValidationError, match=f"row 0: .*{named}"):
        steps_of({"trace": trace}, [1, 2], "row 0")


def test_a_fault_of_bonus_tokens_alone_is_found_by_the_bet_on_them():
    """One token in twenty is drawn from the draft; among all tokens that is too faint."""
    target, draft = tables(vocab=24, noise=0.7)
    p, q = target.softmax(-1), draft.softmax(-1)
    every, count = 20, 16_000
    coins = np.random.default_rng(0).random(count)
    cumulative = {"p": p.cumsum(-1).numpy(), "q": q.cumsum(-1).numpy()}
    path = [0]
    for t in range(count):
        law = cumulative["q" if t % every == 0 else "p"][path[-1]]
        path.append(int((law <= coins[t] * law[-1]).sum()))
    tokens = np.array(path)
    bets = bet_table(p, q)[tokens[:-1], tokens[1:]][:, :3]
    where = ["bonus" if t % every == 0 else "inside" for t in range(count)]
    columns, made = gated(bets, NAMES, where)
    blind, seeing = EProcess(NAMES, 0.01), EProcess([*NAMES, *gated_names(NAMES)], 0.01)
    blind.update(bets)
    seeing.update(columns, made)

    assert blind.crossed_at is None
    assert seeing.crossed_by == "towards 'bonus: draft'"


def test_where_no_bet_was_made_wealth_stays_whatever_noise_is_allowed_for():
    process = EProcess(["a", "b"], 0.01, np.array([[0.0, 0.1], [0.0, 0.1]]))
    process.update(np.zeros((500, 2)), np.array([[False, True]] * 500))

    assert process.by_direction["a"] == pytest.approx(0.0)
    assert process.by_direction["b"] < -0.5


def test_a_filter_nobody_asked_for_is_found_by_the_tail():
    """min-p at 0.05 behind a peaked head, which a bet on sharper laws mistakes for chance."""
    row = torch.tensor([0.6, 0.2, 0.1] + [0.1 / 21] * 21, dtype=torch.float64)
    p = row.expand(24, -1)
    law = p * (p >= 0.05 * p.amax(-1, keepdim=True))
    names = list(directions(with_draft=False))
    for tokens in walk(law / law.sum(-1, keepdim=True), 10, 200, np.random.default_rng(4)):
        process = EProcess(names, 0.01)
        process.update(bet_table(p, None)[tokens[:-1], tokens[1:]])
        assert process.crossed_at is not None
        assert max(process.by_direction, key=process.by_direction.__getitem__) == "tail"


def test_tokens_said_again_are_found_by_the_repeat_bet():
    p = torch.full((1, 50), 1 / 50, dtype=torch.float64)
    recent = torch.tensor([[3, 3, 9, -1]])
    chosen = directions(with_draft=False, with_recent=True)
    again = centred_bets(p, torch.tensor([9]), None, chosen, recent)[0].tolist()
    other = centred_bets(p, torch.tensor([8]), None, chosen, recent)[0].tolist()

    place = list(chosen).index("repeat")
    assert again[place] == pytest.approx(2 - 2 * 2 / 50)
    assert other[place] == pytest.approx(-2 * 2 / 50)
    with pytest.raises(ValueError, match="recent"):
        centred_bets(p, torch.tensor([9]), None, chosen)
