"""Shards come back as they went, and damage shows."""

from __future__ import annotations

import pytest
import torch

from specdecode.distil.batches import lookup_of, pieces, steps_of
from specdecode.distil.texts import (
    CONTEXT,
    REPLY,
    WRITTEN_TURN,
    Conversation,
    read_page,
    read_shard,
    write_shard,
)
from specdecode.distil.vocabulary import frequent_tokens
from specdecode.errors import ConfigError, EvidenceError


def text(length, seed, kept=3, vocabulary=12):
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.tensor(
        [CONTEXT, WRITTEN_TURN, CONTEXT] + [REPLY] * (length - 3), dtype=torch.uint8
    )
    rows = length - 2
    law = torch.rand(rows, vocabulary, generator=generator).softmax(-1)
    top = law.topk(kept)
    tokens = torch.randint(vocabulary, (length,), generator=generator)
    return Conversation(tokens, kinds, top.indices, top.values, 1 - top.values.sum(-1))


TEXTS = [text(length, seed) for seed, length in enumerate((5, 9, 4, 14, 6))]


def test_a_shard_comes_back(tmp_path):
    page = write_shard(tmp_path, "train-00000", TEXTS, {"stream": "train", "dropped": 0})

    found = read_shard(tmp_path, page)

    assert read_page(tmp_path / "train-00000.json") == page
    assert page["tokens"] == sum(len(t.tokens) - 2 for t in TEXTS)
    for mine, theirs in zip(TEXTS, found, strict=True):
        assert torch.equal(mine.tokens, theirs.tokens)
        assert torch.equal(mine.kinds, theirs.kinds)
        assert torch.equal(mine.top_ids, theirs.top_ids)
        torch.testing.assert_close(mine.top_probs, theirs.top_probs.float(), rtol=1e-3, atol=1e-6)


def test_an_empty_shard_comes_back_too(tmp_path):
    assert read_shard(tmp_path, write_shard(tmp_path, "train-00000", [], {})) == []


def test_a_changed_shard_is_refused_and_named(tmp_path):
    page = write_shard(tmp_path, "train-00000", TEXTS, {})
    path = tmp_path / "train-00000.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(EvidenceError, match=r"train-00000.safetensors.*was changed"):
        read_shard(tmp_path, page)


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_damaged_page_is_refused(tmp_path, content):
    (tmp_path / "page.json").write_text(content)
    with pytest.raises(EvidenceError, match=r"page.json.*start again"):
        read_page(tmp_path / "page.json")


@pytest.mark.parametrize("number", [0, 1])
def test_every_pass_reads_every_text_once(number):
    lengths = [len(t.tokens) for t in TEXTS]
    steps = steps_of(lengths, 12, seed=3, number=number)
    assert sorted(index for step in steps for index in step) == list(range(len(TEXTS)))
    assert all(sum(lengths[i] for i in step[:-1]) < 12 for step in steps)


def test_passes_have_orders_of_their_own():
    lengths = [5] * 40
    first, second, again = (steps_of(lengths, 10, 0, number) for number in (0, 1, 0))
    assert first == again != second


def test_pieces_hold_the_law_before_each_written_token():
    ids = torch.tensor([1, 4, 5, 9])
    lookup = lookup_of(ids, 12)
    seen = 0
    for piece in pieces(TEXTS, lookup, torch.device("cpu"), most=20):
        width = piece.tokens.shape[1]
        assert piece.tokens.numel() <= 20 or len(piece.tokens) == 1
        following = piece.tokens.flatten()[piece.rows + 1]
        assert torch.equal(lookup[following], piece.wanted.drawn)
        assert bool((piece.rows % width < width - 1).all())
        seen += len(piece.rows)
    assert seen == sum(len(t.scored) for t in TEXTS)


def test_the_head_has_the_tokens_with_most_probability():
    mass = torch.zeros(12)
    for each in TEXTS:
        mass.index_add_(0, each.top_ids.flatten(), each.top_probs.flatten())
    ids = frequent_tokens(TEXTS, 4, 12)
    outside = sorted(set(range(12)) - set(ids.tolist()))
    assert ids.tolist() == sorted(ids.tolist())
    assert float(mass[ids].min()) >= float(mass[outside].max())
    assert frequent_tokens(TEXTS, None, 12).tolist() == list(range(12))


def test_a_head_larger_than_the_vocabulary_is_refused():
    with pytest.raises(ConfigError, match="has 12: give fewer, or `full`"):
        frequent_tokens(TEXTS, 13, 12)
