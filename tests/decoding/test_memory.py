"""Batches that do not fit: halved, restarted, and the same replies in the same order."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding.memory import is_out_of_memory
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import EngineError, OutOfMemoryError
from tests.decoding.drafters import toy_drafters
from tests.decoding.toys import TableNetwork, ToyModel

PROMPTS = [[0, 1, 2, 0, 1], [2, 1], [1], [0], [2, 2], [1, 2, 0], [0, 0]]
PARAMS = [
    SamplingParams(max_tokens=n, seed=seed, logprobs=1)
    for seed, n in enumerate((3, 12, 9, 1, 12, 7, 12))
]
CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 1000000000000 bytes. Error code 12 (Cannot allocate memory)"
)
WINDOWS = RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes.")


class SmallNetwork(TableNetwork):
    """Has room for some rows only, from its `after`-th pass on."""

    def __init__(self, seed, rows, error, after=0):
        super().__init__(seed)
        self.rows, self.error, self.after = rows, error, after
        self.passes, self.seen = 0, []

    def forward(self, tokens, starts, cache, select=None):
        self.passes += 1
        self.seen.append(tokens.shape[0])
        if tokens.shape[0] > self.rows and self.passes > self.after:
            raise self.error
        return super().forward(tokens, starts, cache, select)


def small(rows, error=CUDA, after=0, drafter=None) -> Engine:
    return Engine(ToyModel(SmallNetwork(1, rows, error, after)), drafter, "block", 3)


def undisturbed(drafter=None):
    return Engine(ToyModel(TableNetwork(1)), drafter, "block", 3).generate(PROMPTS, PARAMS)


def facts(results):
    return [(r.token_ids, r.acceptance, r.seed, r.finish_reason, r.logprobs) for r in results]


@pytest.mark.parametrize("error", [CUDA, CPU, WINDOWS, MemoryError()], ids=lambda e: str(e)[-30:])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7])
def test_replies_are_those_of_an_undisturbed_run_in_order(rows, error):
    results = small(rows, error).generate(PROMPTS, PARAMS)

    assert facts(results) == facts(undisturbed())
    assert max(r.batch_size for r in results) <= rows
    assert [r.prompt_token_ids for r in results] == [tuple(p) for p in PROMPTS]


@pytest.mark.parametrize("after", range(2, 14, 2))
@pytest.mark.parametrize("drafter", ["none", "shared-cache", "own-cache"])
def test_running_out_in_the_middle_changes_no_reply(after, drafter):
    make = {"none": lambda: None, **toy_drafters(dtype=torch.float32)}[drafter]

    results = small(2, after=after, drafter=make()).generate(PROMPTS, PARAMS)

    assert facts(results) == facts(undisturbed(make()))


def test_finished_replies_are_not_decoded_again():
    tool = small(2, after=5)

    results = tool.generate(PROMPTS, PARAMS)

    sizes = [r.batch_size for r in results]
    assert sizes[0] == sizes[3] == 7  # done within the first five passes
    assert set(sizes) - {7} <= {1, 2}
    assert len(set(sizes)) > 1


def test_a_size_that_failed_is_not_tried_again():
    tool = small(2)
    tool.generate(PROMPTS, PARAMS)
    assert [n for n in tool.target.network.seen if n > 2] == [7, 3]


def test_several_replies_to_a_prompt_are_split_like_others():
    params = SamplingParams(max_tokens=9, seed=1, n=5)
    # The prompt's own pass has one row whatever n is: it runs out in the steps.
    results = small(2).generate([PROMPTS[0]], params)
    expected = Engine(ToyModel(TableNetwork(1)), None, "block", 3).generate([PROMPTS[0]], params)
    assert facts(results) == facts(expected)
    assert [r.sample_index for r in results] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("error", [CUDA, CPU, MemoryError()], ids=["cuda", "cpu", "python"])
def test_one_request_too_large_is_an_error_with_a_way_out(error):
    with pytest.raises(OutOfMemoryError, match=r"5 prompt tokens and up to 3 .*lower max_tokens"):
        small(0, error).generate(PROMPTS, PARAMS)
    with pytest.raises(EngineError, match="lower max_tokens"):
        list(small(0, error).stream(PROMPTS[0], PARAMS[0]))
    with pytest.raises(MemoryError):  # callers that knew nothing of this package's errors
        small(0, error).generate(PROMPTS, PARAMS)


def test_a_draft_that_does_not_fit_is_a_matter_of_size_not_a_fault():
    drafter = SelfDrafter("self", SmallNetwork(2, 2, CUDA))
    tool = Engine(ToyModel(TableNetwork(1)), drafter, "block", 3)

    results = tool.generate(PROMPTS, PARAMS)

    assert all(r.draft_failure is None for r in results)
    assert facts(results) == facts(undisturbed(SelfDrafter("self", TableNetwork(2))))


def test_other_errors_are_raised_as_they_are():
    with pytest.raises(RuntimeError, match="shape mismatch"):
        small(2, RuntimeError("shape mismatch")).generate(PROMPTS, PARAMS)
    assert not is_out_of_memory(ValueError("out of memory"))


def test_the_failed_batch_is_gone_before_the_next_begins():
    """Its tensors hang on the error's traceback, and would take the room of the smaller batch."""
    caches = []

    class Watching(SmallNetwork):
        def forward(self, tokens, starts, cache, select=None):
            if all(seen() is not cache for seen in caches):
                gc.collect()
                alive = [seen() for seen in caches if seen() is not None]
                assert not alive, "an earlier batch still holds its cache"
                caches.append(weakref.ref(cache))
            return super().forward(tokens, starts, cache, select)

    network = Watching(1, 2, CUDA, after=3)
    Engine(ToyModel(network), None, "block", 3).generate(PROMPTS, PARAMS)
    assert len(caches) > 2


def test_the_warning_comes_once_and_says_the_sizes(caplog):
    tool = small(2)
    with caplog.at_level(logging.WARNING, "specdecode.decoding"):
        tool.generate(PROMPTS, PARAMS)
        tool.generate(PROMPTS, PARAMS)
    assert [r.message for r in caplog.records if "do not fit" in r.message] == [
        "7 requests do not fit in memory together; trying 3 (give fewer prompts a call, or shorter "
        "ones, to avoid decoding some of them twice)"
    ]


def test_a_batch_that_fits_says_its_size():
    assert [r.batch_size for r in undisturbed()] == [7] * 7
    assert Engine(ToyModel(TableNetwork(1)), None, "block", 3).generate([]) == []
