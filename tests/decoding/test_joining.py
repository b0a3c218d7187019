"""Requests join and leave a running batch at any step, and nobody's reply can tell."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode import Engine, SamplingParams
from specdecode.decoding import draft_sampling
from specdecode.decoding.faults import GuardedDrafter
from specdecode.decoding.intake import make_requests
from specdecode.decoding.loop import _closed_up
from specdecode.decoding.result import finished
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import ConfigError, OutOfMemoryError
from specdecode.models import KVCache, load_model
from specdecode.verification.exact import total_variation
from tests.decoding.drafters import toy_drafters
from tests.decoding.joins import (
    DRAFTERS,
    LENGTH,
    PROMPT,
    REQUESTS,
    RULES,
    FailsOnce,
    alone,
    facts,
    requests_of,
    toy_engine,
)
from tests.decoding.reply_laws import Explorer, plain_law
from tests.decoding.toys import TableNetwork, ToyModel
from tests.paths import Path
from tests.tiny_models import write_tiny_model


def run(tool, joins, leaves=(), steps=80):
    """Requests join at the steps of `joins`, and leave at those of `leaves`."""
    batch = tool.open(slots=len(REQUESTS))
    requests = dict(zip(joins, requests_of(tool, *joins), strict=True))
    for step in range(steps):
        coming = [requests[i] for i, at in joins.items() if at == step]
        batch.join(coming)
        batch.leave([requests[i] for i, at in dict(leaves).items() if at == step])
        batch.step()
    assert not batch.requests
    return requests


@pytest.mark.parametrize(("drafter", "rule"), list(itertools.product(DRAFTERS, RULES)))
def test_a_reply_is_the_same_whenever_its_request_joins(drafter, rule):
    for joins in (dict(enumerate([0] * 6)), dict(enumerate([0, 1, 2, 2, 3, 1]))):
        tool = toy_engine(drafter, rule)

        requests = run(tool, joins)

        for index, request in requests.items():
            assert facts(tool, request) == alone(toy_engine(drafter, rule), index)


@settings(deadline=None, max_examples=60)
@given(
    drafter=st.sampled_from(sorted(DRAFTERS)),
    joins=st.dictionaries(st.integers(0, 5), st.integers(0, 9), min_size=1),
    leaves=st.dictionaries(st.integers(0, 5), st.integers(0, 12)),
)
def test_neighbours_that_come_and_go_change_no_reply(drafter, joins, leaves):
    tool = toy_engine(drafter)
    leaves = {i: at for i, at in leaves.items() if i in joins}

    requests = run(tool, joins, leaves)

    for index, request in requests.items():
        tokens, *_ = expected = alone(toy_engine(drafter), index)
        if request.finish_reason is None:  # it left: what it had is the beginning of its reply
            assert tuple(request.output) == tokens[: len(request.output)]
        else:
            assert facts(tool, request) == expected


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("draft", [None, "model", "self-int8", "early-exit:2"])
def test_the_same_with_real_architectures(tmp_path, kind, draft):
    target = load_model(write_tiny_model(tmp_path / "t", kind), device="cpu", dtype="float64")
    if draft == "model":
        draft = write_tiny_model(tmp_path / "d", "llama", seed=3)
    prompts = [[2, 3, 4], [5] * 40, [7, 8, 9, 10, 11, 12], [2, 3, 4]]
    params = [SamplingParams(max_tokens=20 + i, seed=i, ignore_eos=True) for i in range(4)]
    expected = [
        Engine.load(target, draft).generate([p], q)[0].token_ids
        for p, q in zip(prompts, params, strict=True)
    ]
    tool = Engine.load(target, draft)
    batch = tool.open(slots=4)
    requests = make_requests(target, prompts, params)

    for request in requests:
        batch.join([request])
        batch.step()
    while batch.requests:
        batch.step()

    assert [tuple(r.output) for r in requests] == expected
    assert [r.batch_size for r in requests] == [4, 4, 4, 4]


class RaggedExplorer(Explorer):
    """Leaves out draws that are cut off: which there are depends on the neighbours."""

    def __init__(self, monkeypatch, rule):
        super().__init__(monkeypatch, rule)
        self.wanted, self.index = [], 0
        propose = GuardedDrafter.propose

        def noted(drafter, contexts, wanted, sample, rows=None):
            room = getattr(drafter._drafter, "room", lambda _contexts, most: most)
            self.wanted, self.index = room(contexts, wanted), 0
            return propose(drafter, contexts, wanted, sample, rows)

        monkeypatch.setattr(GuardedDrafter, "propose", noted)
        monkeypatch.setattr(draft_sampling, "inverse_cdf", self._draft)

    def _draft(self, weights, coins):
        rows = zip(self._of(coins), weights.tolist(), self.wanted, strict=True)
        tokens = [path.choose(row) if self.index < most else 0 for path, row, most in rows]
        self.index += 1
        return torch.tensor(tokens)


class Joining:
    """In place of an engine: rows join in waves, beside others that are cancelled.

    Args:
        tool: the engine.
        waves: steps at which rows join, in turn.
        explorer: whose paths the rows follow; neighbours get paths that are not counted.
        cancelled_at: step after which each neighbour leaves.
    """

    def __init__(self, tool, waves, explorer, cancelled_at):
        self.tool, self.waves, self.explorer = tool, waves, explorer
        self.cancelled_at = cancelled_at

    def generate(self, prompts, params):
        tool = self.tool
        requests = make_requests(tool.target, prompts, params)
        others = []
        for _ in range(2):
            self.explorer.paths.append(Path(()))
            seed = len(self.explorer.paths) - 1
            others += make_requests(
                tool.target, [[2, 2]], SamplingParams(max_tokens=9, seed=seed, top_k=2)
            )
        batch = tool.open(slots=len(requests) + 2)
        batch.join([others[0]])
        for step in range(12):
            if step == 1:
                batch.join([others[1]])
            batch.join(
                [r for i, r in enumerate(requests) if self.waves[i % len(self.waves)] == step]
            )
            batch.step()
            if step == self.cancelled_at:
                batch.leave(others)
        del self.explorer.paths[-2:]
        assert not batch.requests
        return [finished(r, tool.num_speculative_tokens, trace=False) for r in requests]


ENUMERATED = {name: make for name, make in toy_drafters().items() if name != "cascade"}
CELLS = {
    "bare": {},
    "mixed": {"temperature": 0.7, "top_k": 2, "repetition_penalty": 1.5, "presence_penalty": 0.6},
}


@pytest.mark.parametrize(("drafter", "rule"), list(itertools.product(ENUMERATED, RULES)))
@pytest.mark.parametrize("cell", CELLS)
def test_the_law_of_replies_is_plain_decodings(monkeypatch, drafter, rule, cell):
    params = SamplingParams(max_tokens=LENGTH, **CELLS[cell])
    plain = plain_law(TableNetwork(1, dtype=torch.float64), PROMPT, params)

    every_step = rule == "block" and cell == "mixed"
    for cancelled_at in range(5) if every_step else [2]:
        with monkeypatch.context() as patch:
            explorer = RaggedExplorer(patch, rule)
            model = ToyModel(TableNetwork(1, dtype=torch.float64))
            tool = Engine(model, ENUMERATED[drafter](), rule, 2)
            law = explorer.law(Joining(tool, [0, 1, 3, 2], explorer, cancelled_at), PROMPT, params)

        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        assert total_variation(law, plain) <= 1e-12


class Shifted(KVCache):
    """Planted fault: joining rows are stored in each other's places."""

    def add_rows(self, other, capacity):
        if other.batch > 1:
            other.keep_rows([*range(1, other.batch), 0])
        super().add_rows(other, capacity)


def test_rows_that_are_mixed_up_in_joining_are_seen(monkeypatch):
    from specdecode.decoding import loop

    monkeypatch.setattr(loop, "KVCache", Shifted)
    tool = toy_engine("none")
    joins = {0: 0, 2: 1, 3: 1, 5: 1}

    requests = run(tool, joins)

    monkeypatch.undo()
    assert any(facts(tool, r) != alone(toy_engine("none"), i) for i, r in requests.items())


class Stale(SelfDrafter):
    """Planted fault: drafts newcomers with the coins of the batch's oldest row."""

    def propose(self, contexts, wanted, sample):
        steps = [max(sample._sample._steps)] * len(contexts)
        sample._sample._steps = steps
        sample._sample._noise = sample._sample._draw(1, 3)
        return super().propose(contexts, wanted, sample)


def test_coins_that_depend_on_the_batch_are_seen():
    def tool():
        network = TableNetwork(2, dtype=torch.float64)
        model = ToyModel(TableNetwork(1, dtype=torch.float64))
        return Engine(model, Stale("stale", network), "block", 3)

    requests = run(engine := tool(), {0: 0, 5: 2})

    assert facts(engine, requests[5]) != alone(tool(), 5)


class Choking(TableNetwork):
    """Has no memory for one of the prompts."""

    def forward(self, tokens, starts, cache, select=None):
        if tokens[0, :8].tolist() == REQUESTS[3][0]:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super().forward(tokens, starts, cache, select)


@pytest.mark.parametrize("at", ["target", "middle of a cascade"])
def test_a_request_that_does_not_fit_leaves_the_batch_as_it_was(at):
    from specdecode.drafting.cascade import CascadeDrafter
    from specdecode.drafting.draft_model import ModelDrafter

    small = Choking(2, dtype=torch.float64)
    large = TableNetwork(2, dtype=torch.float64)
    drafter = CascadeDrafter(
        "c", ModelDrafter("b", large, 64), ModelDrafter("m", small if "m" in at[:1] else large, 64)
    )
    target = (
        Choking(1, dtype=torch.float64) if at == "target" else TableNetwork(1, dtype=torch.float64)
    )
    tool = Engine(ToyModel(target), drafter, "block", 3)
    first, second, large_one = requests_of(tool, 0, 5, 3)
    batch = tool.open(slots=3)
    batch.join([first])
    batch.step()

    with pytest.raises(torch.OutOfMemoryError):
        batch.join([large_one])

    assert list(batch.requests) == [first]
    batch.join([second])
    while batch.requests:
        batch.step()
    for index, request in ((0, first), (5, second)):
        (result,) = Engine(tool.target, drafter, "block", 3).generate(
            [REQUESTS[index][0]], REQUESTS[index][1]
        )
        assert tuple(request.output) == result.token_ids


@pytest.mark.parametrize("at", range(3, 7))
@pytest.mark.parametrize("drafter", ["none", "own-cache", "shared-cache", "suffix"])
def test_a_step_that_failed_can_be_tried_again(at, drafter):
    tool = toy_engine(drafter, network=FailsOnce(1, at))
    first, second = requests_of(tool, 0, 5)
    batch = tool.open(slots=2)
    batch.join([first])
    batch.join([second])
    failures = 0
    while batch.requests:
        try:
            batch.step()
        except OutOfMemoryError:
            failures += 1
    assert failures == 1
    assert facts(tool, first) == alone(toy_engine(drafter), 0)
    assert facts(tool, second) == alone(toy_engine(drafter), 5)


def test_no_more_than_the_slots_and_no_rule_that_ties_steps_together():
    tool = toy_engine("shared-cache")
    batch = tool.open(slots=1)
    batch.join(requests_of(tool, 0))

    with pytest.raises(ConfigError, match="only 0 have room"):
        batch.join(requests_of(tool, 1))
    with pytest.raises(ConfigError, match="greedy-block"):
        toy_engine("shared-cache", "greedy-block").open(slots=1)
    tool.generate([[0]], SamplingParams(max_tokens=2))
    with pytest.raises(ConfigError, match="took over the draft"):
        batch.step()


def test_times_count_from_each_requests_own_arrival():
    tool = toy_engine("shared-cache")
    batch = tool.open(slots=2)
    first, second = requests_of(tool, 0, 5)
    import time

    first.started = time.perf_counter()
    batch.join([first])
    batch.step()
    second.started = time.perf_counter()
    batch.join([second])
    while batch.requests:
        batch.step()

    for request in (first, second):
        result = finished(request, 3, trace=False)
        assert 0 < result.timing.ttft_s <= result.timing.e2e_s
        assert result.timing.draft_s + result.timing.verify_s <= result.timing.e2e_s


@given(st.lists(st.booleans(), max_size=12))
def test_of_those_that_stay_only_the_last_move_into_the_gaps(stays):
    rows = _closed_up(stays)

    assert sorted(rows) == [row for row, here in enumerate(stays) if here]
    assert all(row == place or row >= len(rows) for place, row in enumerate(rows))
