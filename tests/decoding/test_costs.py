"""Cost tables, and how they are measured: against a clock that only tiny networks move."""

from __future__ import annotations

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding.calibration import measure_costs
from specdecode.decoding.costs import CostTable, StepCosts
from specdecode.decoding.lengths import Lengths
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import ConfigError
from tests.decoding.toys import TableNetwork, ToyModel


def flat(gamma, draft=0.1, verify=1.0):
    return StepCosts(tuple(draft * g for g in range(gamma + 1)), (verify,) * (gamma + 1))


def test_a_step_costs_its_draft_and_its_pass():
    costs = StepCosts((0.0, 0.25, 0.5), (1.0, 1.5, 2.0))

    assert costs.seconds(2) == (1.0, 1.75, 2.5)
    assert costs.seconds(1) == (1.0, 1.75)


@pytest.mark.parametrize(
    ("draft", "verify", "says"),
    [
        ((), (), "0 draft and 0 verify"),
        ((0.0, 0.1), (1.0,), "2 draft and 1 verify"),
        ((0.0, -0.1), (1.0, 1.0), "draft cost of draft length 1 is -0.1"),
        ((0.0, float("nan")), (1.0, 1.0), "draft cost of draft length 1 is nan"),
        ((0.0, 0.1), (1.0, float("inf")), "verify cost of draft length 1 is inf"),
        ((0.0, 0.1), (0.0, 1.0), "verify cost of draft length 0 is 0.0"),
    ],
)
def test_costs_that_are_none_are_refused(draft, verify, says):
    with pytest.raises(ConfigError, match=says):
        StepCosts(draft, verify)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "empty"),
        ({0: flat(4)}, "0 is no batch size"),
        ({True: flat(4)}, "True is no batch size"),
        ({2: flat(3)}, "batch size 2 end at draft length 3, but up to 4"),
    ],
)
def test_tables_that_cannot_serve_are_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        CostTable(4, given)


def test_a_given_table_is_never_added_to():
    table = CostTable(2, {2: flat(2, verify=2.0), 8: flat(2, verify=8.0)})

    table.prepare(100, lambda size: pytest.fail(f"measured {size}"))

    found = {size: table.seconds(size)[0] for size in (1, 2, 7, 8, 100)}
    assert found == {1: 2.0, 2: 2.0, 7: 8.0, 8: 8.0, 100: 8.0}


def test_a_batch_is_measured_once_for_every_size_it_shrinks_through():
    table, measured = CostTable(2), []

    def measure(size):
        measured.append(size)
        return flat(2, verify=float(size))

    table.prepare(5, measure)
    table.prepare(3, measure)
    table.prepare(9, measure)

    assert measured == [1, 2, 4, 8, 16]
    found = [table.seconds(size)[0] for size in (1, 2, 3, 4, 5, 8, 9, 16)]
    assert found == [1, 2, 4, 4, 8, 8, 16, 16]
    assert dict(table.known) == {size: flat(2, verify=float(size)) for size in (1, 2, 4, 8, 16)}


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


class TimedNetwork(TableNetwork):
    """Takes `base` seconds a pass and `per_token` for each new token of the widest row."""

    def __init__(self, seed, clock, base, per_token):
        super().__init__(seed)
        self.clock, self.base, self.per_token, self.passes = clock, base, per_token, 0

    def forward(self, tokens, starts, cache, select=None):
        self.passes += 1
        self.clock.seconds += self.base + self.per_token * tokens.shape[1] * tokens.shape[0]
        return super().forward(tokens, starts, cache, select)


def measured(drafter, target, clock, size=1, max_context=64):
    gamma = 16
    engine = Engine(ToyModel(target), drafter, "block", gamma)

    def make(requests):
        return engine._batch(requests, trace=False, lengths=Lengths.fixed(requests, gamma))

    return measure_costs(make, size, gamma, max_context, clock)


@pytest.mark.parametrize("size", [1, 4])
def test_measured_costs_are_those_of_the_networks(size):
    clock = Clock()
    target, draft = TimedNetwork(1, clock, 8.0, 0.5), TimedNetwork(2, clock, 1.0, 0.0)

    costs = measured(SelfDrafter("self", draft), target, clock, size)

    assert costs.draft == pytest.approx([1.0 * g for g in range(17)])
    assert costs.verify == pytest.approx([8.0 + 0.5 * size * (g + 1) for g in range(17)])


def test_a_drafter_that_computes_nothing_costs_nothing():
    clock = Clock()
    target = TimedNetwork(1, clock, 1.0, 0.25)

    costs = measured(PromptLookupDrafter(3, torch.device("cpu")), target, clock)

    assert costs.draft == (0.0,) * 17
    assert costs.verify == pytest.approx([1.0 + 0.25 * (g + 1) for g in range(17)])


def test_a_slow_first_pass_and_one_slow_outlier_do_not_count():
    clock = Clock()

    class Stuttering(TimedNetwork):
        def forward(self, tokens, starts, cache, select=None):
            if self.passes in (0, 1, 2):  # the prompt, the run not timed, the first timed one
                self.clock.seconds += 100
            return super().forward(tokens, starts, cache, select)

    target, draft = Stuttering(1, clock, 1.0, 0.0), TimedNetwork(2, clock, 0.5, 0.0)

    costs = measured(SelfDrafter("self", draft), target, clock)

    assert costs.verify == pytest.approx([1.0] * 17)


def test_noise_never_makes_a_wider_pass_cheaper():
    clock = Clock()

    class Lucky(TimedNetwork):
        def forward(self, tokens, starts, cache, select=None):
            self.base = 1.0 if tokens.shape[1] == 9 else 2.0
            return super().forward(tokens, starts, cache, select)

    costs = measured(
        SelfDrafter("self", TimedNetwork(2, clock, 0.5, 0.0)), Lucky(1, clock, 0, 0), clock
    )

    assert costs.verify == pytest.approx([2.0] * 17)


@pytest.mark.parametrize("max_context", [2, 4, 5, 9, 20, 64])
def test_nothing_wider_than_the_context_window_is_run(max_context):
    clock, widest = Clock(), []

    class Watching(TimedNetwork):
        def forward(self, tokens, starts, cache, select=None):
            widest.append(max(starts) + tokens.shape[1])
            return super().forward(tokens, starts, cache, select)

    target, draft = Watching(1, clock, 1.0, 0.0), Watching(2, clock, 0.5, 0.0)

    costs = measured(SelfDrafter("self", draft), target, clock, max_context=max_context)

    assert max(widest) <= max_context
    assert len(costs.draft) == len(costs.verify) == 17


def test_measuring_happens_once_and_leaves_the_reply_alone():
    clock = Clock()
    target, draft = TimedNetwork(1, clock, 1.0, 0.0), TimedNetwork(2, clock, 0.1, 0.0)
    drafter = SelfDrafter("self", draft)
    engine = Engine(ToyModel(target), drafter, "match", 16, CostTable(16))
    plain = Engine(ToyModel(target), None, "match", 16)
    params = SamplingParams(max_tokens=30, seed=4)

    first = engine.generate([[0, 1, 2]] * 3, params)
    passes, costs = target.passes, dict(engine.costs)
    second = engine.generate([[0, 1, 2]] * 3, params)

    assert [r.token_ids for r in first] == [
        r.token_ids for r in plain.generate([[0, 1, 2]] * 3, params)
    ]
    assert [r.token_ids for r in second] == [r.token_ids for r in first]
    assert dict(engine.costs) == costs
    assert sorted(costs) == [1, 2, 4]
    assert second[0].acceptance == first[0].acceptance
    assert passes > 0
