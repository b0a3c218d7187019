"""Rows that are to draft nothing cost no draft, and nobody's reply can tell."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode import Engine
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.models.cache import CacheRows, KVCache
from tests.decoding.joins import DRAFTERS, REQUESTS, RULES, facts, requests_of, toy_engine
from tests.decoding.toys import TableNetwork, ToyModel

DRAFTING = sorted(set(DRAFTERS) - {"none"})
LONGEST = (0, 2, 5)  # requests that go on for a while


class Scripted:
    """A draft length for every step, over and over."""

    def __init__(self, script):
        self._script = itertools.cycle(script)

    def choose(self, seconds, most):
        del seconds
        return min(next(self._script), most)

    def observe(self, drafted, kept):
        pass


def run(tool, scripts, *indices):
    """Replies of requests that are decoded together, each with its own script."""
    requests = requests_of(tool, *indices)
    by_request = {r: scripts[i] for r, i in zip(requests, indices, strict=True)}
    batch = tool.open(slots=len(requests), lengths=lambda r: Scripted(by_request[r]))
    for request in requests:
        batch.join([request])
    while batch.requests:
        batch.step()
    return [facts(tool, request) for request in requests]


@settings(deadline=None, max_examples=120)
@given(
    drafter=st.sampled_from(DRAFTING),
    rule=st.sampled_from(RULES),
    order=st.permutations(range(len(REQUESTS))),
    scripts=st.lists(
        st.lists(st.sampled_from((0, 0, 0, 1, 3)), min_size=1, max_size=6),
        min_size=len(REQUESTS),
        max_size=len(REQUESTS),
    ),
)
def test_a_reply_is_what_it_would_be_alone_whoever_drafts_beside_it(drafter, rule, order, scripts):
    """Also where a row has drafted nothing for a while, and then does."""
    if drafter == "suffix":  # it remembers earlier batches, and draws other coins in the next
        order = order[:1]
    together = run(toy_engine(drafter, rule), scripts, *order)

    assert together == [run(toy_engine(drafter, rule), scripts, i)[0] for i in order]


class Watched(TableNetwork):
    """Notes how many rows each pass is for."""

    def __init__(self):
        super().__init__(2, dtype=torch.float64)
        self.rows = []

    def forward(self, tokens, starts, cache, select=None):
        self.rows.append(len(tokens))
        return super().forward(tokens, starts, cache, select)


KINDS = {
    "shared-cache": lambda network: SelfDrafter("self", network),
    "own-cache": lambda network: ModelDrafter("model", network, 64),
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("drafting", [(1,), (0, 2), (0, 1, 2), ()], ids=str)
def test_the_drafts_passes_are_for_those_rows_alone_that_draft(kind, drafting):
    network = Watched()
    tool = Engine(ToyModel(TableNetwork(1, dtype=torch.float64)), KINDS[kind](network), "block", 3)
    requests = requests_of(tool, *LONGEST)
    lengths = {r: 3 if row in drafting else 0 for row, r in enumerate(requests)}
    batch = tool.open(slots=3, lengths=lambda r: Scripted([lengths[r]]))
    for request in requests:
        batch.join([request])
    network.rows.clear()
    batch.step()

    # Three passes: over the newest token, and over two drafts; the last one needs none.
    assert network.rows == [len(drafting)] * 3 if drafting else network.rows == []
    assert [r.drafted for r in requests] == [lengths[r] for r in requests]


def filled(rows, slots, written):
    """A cache of two layers with something in every slot that was written."""
    cache = KVCache(rows, slots)
    cache.aim([0] * rows, written, torch.device("cpu"))
    for layer in range(2):
        values = torch.randn(rows, written, 2, 3, generator=torch.Generator().manual_seed(layer))
        cache.write(layer, values, -values)
    return cache


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_rows_of_a_cache_are_a_cache(data):
    """What is written and read by way of some rows is what those rows alone would hold."""
    whole, untouched = filled(5, 12, 6), filled(5, 12, 6)
    rows = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5, unique=True))
    some, copied = CacheRows(whole, rows), filled(5, 12, 6)
    copied.keep_rows(rows)
    for _ in range(data.draw(st.integers(1, 3))):
        width = data.draw(st.integers(1, 3))
        same = data.draw(st.booleans())
        start = data.draw(st.integers(0, 6))
        starts = [start if same else data.draw(st.integers(0, 6)) for _ in rows]
        masks = [cache.aim(starts, width, torch.device("cpu")) for cache in (some, copied)]
        assert (masks[0] is None) == (masks[1] is None)
        assert masks[0] is None or torch.equal(*masks)
        for layer in range(2):
            new = torch.randn(len(rows), width, 2, 3)
            for mine, theirs in zip(
                some.write(layer, new, 2 * new), copied.write(layer, new, 2 * new), strict=True
            ):
                assert torch.equal(mine, theirs)
    others = [row for row in range(5) if row not in rows]
    for row in others:
        for layer, (keys, values) in whole.copy_row(row, 6).items():
            assert torch.equal(keys, untouched.copy_row(row, 6)[layer][0])
            assert torch.equal(values, untouched.copy_row(row, 6)[layer][1])
    for place, row in enumerate(rows):
        for layer, (keys, _) in whole.copy_row(row, 9).items():
            assert torch.equal(keys, copied.copy_row(place, 9)[layer][0])
    assert some.bytes_held == 0


def test_rows_of_a_cache_without_layers_make_them_in_the_whole_one():
    whole = KVCache(3, 4)
    some = CacheRows(whole, [2, 0])
    some.aim([1, 1], 1, torch.device("cpu"))
    some.write(0, torch.ones(2, 1, 1, 1), torch.ones(2, 1, 1, 1))

    assert whole.bytes_held == 2 * 3 * 4 * 4
    assert whole.copy_row(0, 4)[0][0].flatten().tolist() == [0, 1, 0, 0]
    assert whole.copy_row(1, 4)[0][0].flatten().tolist() == [0, 0, 0, 0]
