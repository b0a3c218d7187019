"""A draft model reads the prompts of newcomers beside the target, piece for piece."""

from __future__ import annotations

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding.intake import make_requests
from specdecode.decoding.result import finished
from specdecode.drafting.cascade import CascadeDrafter
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.length import FixedLength
from specdecode.drafting.self_draft import SelfDrafter
from tests.decoding.toys import TableNetwork, ToyModel

LONG = [i % 3 for i in range(40)]


class Watched(TableNetwork):
    """Notes how many tokens each row is given in a pass; fails in the pass that it is told."""

    def __init__(self, fails_at: int = 0, error: Exception | None = None) -> None:
        super().__init__(2, dtype=torch.float64)
        self.widths: list[int] = []
        self.fails_at, self.error = fails_at, error

    def forward(self, tokens, starts, cache, select=None):
        self.widths.append(tokens.shape[1])
        if len(self.widths) == self.fails_at:
            raise self.error or RuntimeError("no more")
        return super().forward(tokens, starts, cache, select)


def engine_of(drafter) -> Engine:
    return Engine(ToyModel(TableNetwork(1, dtype=torch.float64)), drafter, "block", 3)


def requests_of(engine, *prompts):
    return make_requests(engine.target, list(prompts), params_of(prompts))


def params_of(prompts):
    """The first one goes on while others are read."""
    return [SamplingParams(max_tokens=14 if i else 50, seed=i) for i in range(len(prompts))]


def replies(engine, requests):
    return [finished(r, engine.num_speculative_tokens, trace=False).token_ids for r in requests]


def alone(max_context, *prompts):
    engine = engine_of(ModelDrafter("model", TableNetwork(2, dtype=torch.float64), max_context))
    return [
        engine.generate([prompt], params)[0].token_ids
        for prompt, params in zip(prompts, params_of(prompts), strict=True)
    ]


def run_to_the_end(batch):
    while batch.requests:
        batch.step()


@pytest.mark.parametrize("max_context", [64, 20])
def test_it_never_reads_more_at_once_than_the_target(max_context):
    draft = Watched()
    engine = engine_of(ModelDrafter("model", draft, max_context))
    batch = engine.open(slots=3)
    first, second = requests_of(engine, [0, 1], LONG)
    batch.join([first])
    batch.step()
    batch.start([second])
    draft.widths.clear()
    while batch.reading:
        batch.read(5)
        batch.step()
    assert len(batch.requests) == 2
    run_to_the_end(batch)

    assert max(draft.widths) <= 5
    assert replies(engine, [first, second]) == alone(max_context, [0, 1], LONG)


def test_a_prompt_that_it_need_not_read_is_read_when_its_reply_drafts():
    draft, drafting = Watched(), [True]
    engine = engine_of(ModelDrafter("model", draft, 64))

    class Told(FixedLength):
        def choose(self, seconds, most):
            return super().choose(seconds, most) if drafting[0] else 0

    batch = engine.open(slots=2, lengths=lambda _request: Told(3))
    first, second = requests_of(engine, [0, 1], LONG)
    batch.join([first])
    batch.step()
    drafting[0] = False
    draft.widths.clear()
    batch.start([second], draft_reads=False)
    while batch.reading:
        batch.read(5)
        batch.step()
    for _ in range(4):
        batch.step()
    assert draft.widths == []
    assert batch.draft_read_s == 0
    assert len(second.output) == 6  # one on joining, and one in the step that came with it

    drafting[0] = True
    run_to_the_end(batch)

    assert max(draft.widths) >= len(LONG)
    assert second.drafted > 0
    assert [len(first.output), len(second.output)] == [50, 14]


def test_the_time_that_it_reads_is_told():
    engine = engine_of(ModelDrafter("model", Watched(), 64))
    batch = engine.open(slots=2)
    first, second = requests_of(engine, [0, 1], LONG)
    batch.join([first])
    batch.step()
    assert batch.draft_read_s == 0  # it reads the first prompt as it drafts
    batch.start([second])
    batch.read(5)
    begun = batch.draft_read_s
    assert begun > 0
    batch.read()
    assert batch.draft_read_s > begun


def test_newcomers_of_several_prompts_and_of_one_prompt_get_rows_of_their_own():
    engine = engine_of(ModelDrafter("model", Watched(), 64))
    batch = engine.open(slots=5)
    prompts = ([0, 1], LONG, [2, 1, 0], LONG, [1])
    first, *others = requests_of(engine, *prompts)
    batch.join([first])
    batch.start(others)
    batch.read(7)
    batch.leave([others[1]])
    while batch.reading:
        batch.read(7)
        batch.step()
    run_to_the_end(batch)

    stayed = [first, others[0], *others[2:]]
    expected = alone(64, *prompts)
    assert replies(engine, stayed) == [expected[0], expected[1], expected[3], expected[4]]


@pytest.mark.parametrize("fails_at", [1, 3])
def test_a_draft_that_fails_while_it_reads_costs_the_drafts_and_no_reply(fails_at, caplog):
    engine = engine_of(ModelDrafter("model", draft := Watched(), 64))
    batch = engine.open(slots=2)
    first, second = requests_of(engine, [0, 1], LONG)
    batch.join([first])
    batch.step()
    batch.start([second])
    draft.fails_at = len(draft.widths) + fails_at
    while batch.reading:
        batch.read(9)
        batch.step()
    run_to_the_end(batch)

    assert "no more" in (batch.draft_failure or "") + caplog.text
    assert [len(first.output), len(second.output)] == [50, 14]
    assert "no more" in second.draft_failure
    assert second.drafted == 0


def test_a_draft_without_memory_for_a_prompt_ends_the_newcomer_alone():
    engine = engine_of(ModelDrafter("model", draft := Watched(), 64))
    batch = engine.open(slots=2)
    first, second = requests_of(engine, [0, 1], LONG)
    batch.join([first])
    batch.step()
    batch.start([second])
    draft.fails_at, draft.error = len(draft.widths) + 1, MemoryError("out of memory")
    with pytest.raises(MemoryError):
        batch.read(9)
    assert not batch.reading
    run_to_the_end(batch)

    assert replies(engine, [first]) == alone(64, [0, 1])


def test_the_memory_of_its_keys_and_values_is_told():
    engine = engine_of(ModelDrafter("model", TableNetwork(2, dtype=torch.float64), 64))
    batch = engine.open(slots=2)
    first, second = requests_of(engine, [0, 1], LONG)
    assert batch.draft_cache_bytes == 0
    batch.join([first])
    batch.step()
    running = batch.draft_cache_bytes
    assert running > 0
    batch.start([second])
    batch.read(5)
    assert batch.draft_cache_bytes > running


def test_a_draft_over_the_targets_cache_has_none_of_its_own():
    def network():
        return TableNetwork(2, dtype=torch.float64)

    for drafter in (
        SelfDrafter("self", network()),
        CascadeDrafter("both", SelfDrafter("bottom", network()), SelfDrafter("middle", network())),
        None,
    ):
        engine = engine_of(drafter)
        batch = engine.open(slots=1)
        batch.join(requests_of(engine, [0, 1]))
        batch.step()
        assert batch.draft_cache_bytes == 0
        assert batch.cache_bytes > 0


def test_both_drafts_of_a_cascade_are_counted():
    parts = [ModelDrafter(name, TableNetwork(2, dtype=torch.float64), 64) for name in ("a", "b")]
    engine = engine_of(CascadeDrafter("both", *parts))
    batch = engine.open(slots=1)
    batch.join(requests_of(engine, [0, 1]))
    batch.step()
    assert batch.draft_cache_bytes == sum(part.cache_bytes for part in parts) > 0
