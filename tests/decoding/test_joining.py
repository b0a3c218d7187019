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
from specdecode.decoding.request import Request
from specdecode.decoding.result import finished
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import ConfigError, OutOfMemoryError
from specdecode.models import KVCache, load_model
from specdecode.verification.exact import total_variation
from tests.decoding.drafters import toy_drafters
from tests.decoding.reply_laws import Explorer, plain_law
from tests.decoding.toys import TableNetwork, ToyModel
from tests.paths import Path
from tests.tiny_models import write_tiny_model

DRAFTERS = {"none": lambda: None, **toy_drafters()}
RULES = ("token", "block", "match")
PROMPT = [0, 1, 2, 0, 1]
LENGTH = 4
REQUESTS = [
    (PROMPT, SamplingParams(max_tokens=12, seed=1)),
    ([2], SamplingParams(max_tokens=3, seed=2, temperature=0.5, logprobs=2)),
    (PROMPT, SamplingParams(max_tokens=9, seed=3, top_k=2, repetition_penalty=1.4)),
    ([1, 2, 0, 0, 1, 2, 1, 1], SamplingParams(max_tokens=7, seed=1, temperature=0)),
    ([0, 0], SamplingParams(max_tokens=1, seed=4)),
    ([2, 1, 0], SamplingParams(max_tokens=20, seed=5, min_p=0.1, logit_bias={1: 0.5})),
]


def toy_engine(drafter="none", rule="block", gamma=3, network=None) -> Engine:
    model = ToyModel(network or TableNetwork(1, dtype=torch.float64))
    return Engine(model, DRAFTERS[drafter](), rule, gamma)


def requests_of(tool, *indices) -> list[Request]:
    return [make_requests(tool.target, [REQUESTS[i][0]], REQUESTS[i][1])[0] for i in indices]


def facts(tool, request):
    result = finished(request, tool.num_speculative_tokens, trace=False)
    return result.token_ids, result.acceptance, result.logprobs, result.finish_reason


def alone(tool, index):
    (result,) = tool.generate([REQUESTS[index][0]], REQUESTS[index][1])
    return result.token_ids, result.acceptance, result.logprobs, result.finish_reason


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


@settings(deadline=None, max_examples=60)
@given(
    drafter=st.sampled_from(sorted(DRAFTERS)),
    pieces=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    order=st.permutations(range(len(REQUESTS))),
    leaves=st.dictionaries(st.integers(0, 5), st.integers(0, 20), max_size=3),
)
def test_a_prompt_can_be_read_in_pieces_between_the_steps_of_others(drafter, pieces, order, leaves):
    """Whatever the pieces, and whoever leaves, be it in the middle of a prompt."""
    tool = toy_engine(drafter)
    batch = tool.open(slots=len(REQUESTS))
    requests = dict(zip(order, requests_of(tool, *order), strict=True))
    coming, step = list(order), 0
    sizes = itertools.cycle(pieces)
    while coming or batch.reading or batch.requests:
        if coming and not batch.reading:
            batch.start([requests[i] for i in coming[:2]])
            coming = coming[2:]
        batch.leave([requests[i] for i, at in leaves.items() if at == step])
        batch.read(next(sizes))
        batch.step()
        step += 1

    for index, request in requests.items():
        tokens, *_ = expected = alone(toy_engine(drafter), index)
        if request.finish_reason is None:
            assert index in leaves
            assert tuple(request.output) == tokens[: len(request.output)]
        else:
            assert facts(tool, request) == expected


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("draft", [None, "self-int8"])
def test_a_long_prompt_read_in_pieces_in_float32(tmp_path, kind, draft):
    """The newcomer and its neighbour get what they get where prompts are read at once."""
    target = load_model(write_tiny_model(tmp_path, kind), device="cpu", dtype="float32")
    prompts = [[2, 3, 4], [(7 * i) % 20 + 2 for i in range(150)]]
    params = SamplingParams(max_tokens=60, seed=5, ignore_eos=True)
    expected = [Engine.load(target, draft).generate([p], params)[0].token_ids for p in prompts]
    tool = Engine.load(target, draft)
    batch = tool.open(slots=2)
    first, second = make_requests(target, prompts, params)
    batch.join([first])

    batch.start([second])
    unread = []
    while batch.reading:
        unread.append(batch.unread)
        assert batch.free == 0
        batch.read(40)
        batch.step()
    assert batch.requests == (first, second)
    while batch.requests:
        batch.step()

    assert unread == [150, 110, 70, 30]
    assert [tuple(r.output) for r in (first, second)] == expected


def test_a_batch_that_becomes_empty_while_a_prompt_is_read_begins_anew():
    tool = toy_engine("own-cache")
    batch = tool.open(slots=2)
    first, second = requests_of(tool, 4, 3)
    batch.start([second])
    batch.read(2)
    batch.leave([second])
    assert not batch.reading
    assert batch.join([first])[0][0] is first  # it ends with its first token
    second = second.restarted()

    batch.start([second])
    while batch.reading:
        batch.read(3)
        batch.step()
    while batch.requests:
        batch.step()

    assert facts(tool, second) == alone(toy_engine("own-cache"), 3)


def test_a_prompt_that_fails_in_the_middle_leaves_the_others_alone():
    tool = toy_engine(network=FailsOnce(1, 4))
    batch = tool.open(slots=2)
    first, second = requests_of(tool, 0, 3)
    batch.join([first])  # pass 1
    batch.start([second])
    batch.read(3)
    batch.step()

    with pytest.raises(OutOfMemoryError):
        batch.read(3)

    assert not batch.reading
    assert batch.free == 1
    batch.join([second.restarted()])
    while batch.requests:
        batch.step()
    assert facts(tool, first) == alone(toy_engine(), 0)


def test_only_one_group_of_newcomers_is_read_at_a_time():
    tool = toy_engine()
    batch = tool.open(slots=2)
    batch.start(requests_of(tool, 0))
    with pytest.raises(ConfigError, match="being read"):
        batch.start(requests_of(tool, 1))
    with pytest.raises(ConfigError, match="only 1 have room"):
        batch.start(requests_of(tool, 1, 2))


def test_what_the_cache_holds_is_told():
    tool = toy_engine()
    batch = tool.open(slots=2)
    assert batch.cache_tokens == batch.cache_bytes == 0
    first, second = requests_of(tool, 0, 3)
    batch.join([first])
    assert batch.cache_tokens == len(PROMPT) + 1
    alone_bytes = batch.cache_bytes
    batch.start([second])
    batch.read(3)
    assert batch.cache_tokens == len(PROMPT) + 1 + 3
    assert batch.cache_bytes > alone_bytes > 0
    batch.leave([first, second])
    assert batch.cache_tokens == 0


class RaggedExplorer(Explorer):
    """Leaves out draws that are cut off: which there are depends on the neighbours."""

    def __init__(self, monkeypatch, rule):
        super().__init__(monkeypatch, rule)
        self.wanted, self.index = [], 0
        propose = GuardedDrafter.propose

        def noted(drafter, contexts, wanted, sample):
            room = getattr(drafter._drafter, "room", lambda _contexts, most: most)
            self.wanted, self.index = room(contexts, wanted), 0
            return propose(drafter, contexts, wanted, sample)

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


class FailsOnce(TableNetwork):
    """One pass fails."""

    def __init__(self, seed, at):
        super().__init__(seed, dtype=torch.float64)
        self.left = at

    def forward(self, tokens, starts, cache, select=None):
        self.left -= 1
        if self.left == 0:
            raise OutOfMemoryError("just once")
        return super().forward(tokens, starts, cache, select)


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
