"""Rows come and go in a key/value cache, and each keeps its state."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specdecode.models.cache import KVCache


def filled(rows: list[list[float]], capacity: int) -> KVCache:
    """A cache whose slot s of row b holds rows[b][s]."""
    cache = KVCache(len(rows), capacity)
    width = max(len(row) for row in rows)
    padded = torch.tensor([row + [-1.0] * (width - len(row)) for row in rows])
    cache.aim([0] * len(rows), width, torch.device("cpu"))
    cache.write(0, padded[:, :, None, None], -padded[:, :, None, None])
    return cache


def held(cache: KVCache, row: int, length: int) -> list[float]:
    keys, values = cache.copy_row(row, length)[0]
    assert torch.equal(keys, -values)
    return keys[:, 0, 0].tolist()


TEXTS = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=5)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.lists(TEXTS, min_size=1, max_size=3)),
        st.tuples(st.just("keep"), st.lists(st.integers(0, 5), min_size=1, max_size=4)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
        st.tuples(st.just("join unread"), st.integers(1, 3)),
    ),
    max_size=12,
)


@given(first=st.lists(TEXTS, min_size=1, max_size=3), events=EVENTS)
def test_every_row_keeps_its_state(first, events):
    cache, expected = filled(first, 6), list(first)
    for event, value in events:
        if event == "join":
            cache.add_rows(filled(value, 9), 6 + len(expected))
            expected += value
        elif event == "join unread":
            cache.add_rows(KVCache(value, 9), 6 + len(expected))
            expected += [[0.0] * 9] * value  # that nothing is looked at before it is written
        else:
            rows = [i % len(expected) for i in value] if event == "keep" else None
            if rows is None:
                rows = [i for i in range(len(expected)) if i != value]
            if not rows:
                continue
            cache.keep_rows(rows)
            expected = [expected[i] for i in rows]
        assert cache.batch == len(expected)
        for row, text in enumerate(expected):
            assert held(cache, row, len(text)) == text


def test_what_a_row_left_behind_is_not_seen_by_the_next():
    cache = filled([[1.0], [float("nan")] * 4], 6)
    cache.keep_rows([0])

    cache.add_rows(filled([[2.0]], 6), 6)

    assert held(cache, 1, 6) == [2.0, 0, 0, 0, 0, 0]


def test_rows_without_state_can_join_rows_without_state():
    cache = KVCache(1, 4)
    cache.add_rows(KVCache(2, 9), 6)
    cache.aim([0, 0, 0], 1, torch.device("cpu"))
    keys = torch.tensor([1.0, 2.0, 3.0])[:, None, None, None]
    cache.write(0, keys, -keys)

    assert (cache.batch, cache.capacity) == (3, 6)
    assert [held(cache, row, 1) for row in range(3)] == [[1.0], [2.0], [3.0]]


def test_no_memory_for_more_leaves_it_as_it_was(monkeypatch):
    cache, more = filled([[1.0, 2.0], [3.0]], 6), filled([[4.0]], 900)
    monkeypatch.setattr(torch, "zeros", lambda *_a, **_k: (_ for _ in ()).throw(MemoryError()))

    with pytest.raises(MemoryError):
        cache.add_rows(more, 900)

    monkeypatch.undo()
    assert (cache.batch, cache.capacity) == (2, 6)
    assert held(cache, 0, 2) == [1.0, 2.0]
    cache.add_rows(more, 900)
    assert held(cache, 2, 1) == [4.0]
