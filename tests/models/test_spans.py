"""Groups of rows: the cheapest division, and attention that does not notice it."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specdecode.models import KVCache, load_model
from specdecode.models.linear import dense
from specdecode.models.llama import LlamaNetwork
from specdecode.models.spans import Span, row_spans
from tests.tiny_models import write_tiny_model

ENDS = st.lists(st.integers(1, 60), min_size=1, max_size=7)
CALL = st.sampled_from([0.0, 1.0, 9.5, 40.0, float("inf")])


def cost(spans: list[Span], call: float) -> float:
    return sum((rows.stop - rows.start) * slots + call for rows, slots in spans)


@given(ENDS, CALL)
def test_every_row_is_in_one_group_that_sees_all_of_it(ends, call):
    spans = row_spans(ends, call)

    assert [row for rows, _ in spans for row in range(rows.start, rows.stop)] == [*range(len(ends))]
    assert all(slots == max(ends[rows]) for rows, slots in spans)


@given(ENDS, st.sampled_from([0.0, 1.0, 9.5, 40.0]))
def test_no_division_is_cheaper(ends, call):
    def divided(cuts: tuple[int, ...]) -> list[Span]:
        edges = itertools.pairwise([0, *cuts, len(ends)])
        return [(slice(a, b), max(ends[a:b])) for a, b in edges]

    inner = range(1, len(ends))
    divisions = [c for n in range(len(ends)) for c in itertools.combinations(inner, n)]
    least = min(cost(divided(cuts), call) for cuts in divisions)
    assert cost(row_spans(ends, call), call) == pytest.approx(least)


@pytest.mark.parametrize("width", [1, 3])
def test_attention_in_groups_gives_the_same(width, tmp_path):
    model = load_model(write_tiny_model(tmp_path, "llama"), device="cpu", dtype="float64")
    network = LlamaNetwork(model.module, dense, dense)
    ids = torch.arange(2, 50).view(4, 12) % 13
    starts, found = [9, 2, 3, 8], []
    for call in (float("inf"), 0.0):
        network._call_slots = call
        cache = KVCache(4, 12)
        network.forward(ids, [0] * 4, cache)
        step = torch.stack([ids[row, s : s + width] for row, s in enumerate(starts)])
        found.append(network.forward(step, starts, cache))

    torch.testing.assert_close(found[0], found[1])
