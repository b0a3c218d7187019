"""Blocks change neither the law that tokens are drawn from nor which tokens lead."""

from __future__ import annotations

import pytest
import torch

from specdecode.distil.drawing import draw

SIZES = [22, 64, 1000, 6400]
GOLDEN = (5**0.5 - 1) / 2


def logits_of(size, rows=3):
    return 3 * torch.randn(rows, size, generator=torch.Generator().manual_seed(size))


@pytest.mark.parametrize("size", [22, 64, 1000])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_tokens_follow_the_tempered_law(size, temperature):
    """Evenly spread coins in place of chance: counts are then near the law everywhere."""
    number = torch.arange(20_000, dtype=torch.float64)
    coins = torch.stack([(number + 0.5) / len(number), number * GOLDEN % 1], 1)
    logits = logits_of(size, 1)

    found = draw(logits.expand(len(coins), -1), torch.full((len(coins),), temperature), coins, 4)

    law = (logits[0].double() / temperature).softmax(-1)
    counts = torch.bincount(found.tokens, minlength=size).double() / len(coins)
    assert float((counts - law).abs().sum()) / 2 < 0.01
    assert float((counts - law).abs().max()) < 0.001


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kept", [1, 8, 64])
def test_what_is_kept_are_the_largest_at_temperature_one(size, kept):
    logits = logits_of(size)

    found = draw(logits, torch.tensor([1.0, 0.5, 2.0]), torch.full((3, 2), 0.5).double(), kept)

    expected = logits.softmax(-1).topk(min(kept, size))
    torch.testing.assert_close(found.probs, expected.values)
    assert torch.equal(found.ids.long(), expected.indices)
    torch.testing.assert_close(found.tail, (1 - expected.values.sum(-1)).clamp_min(0))


def test_rows_of_unlike_temperatures_are_drawn_as_they_are_alone():
    logits = logits_of(1000, 6)
    temperatures = torch.tensor([1.0, 0.5, 1.0, 0.7, 1.0, 3.0])
    coins = torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    together = draw(logits, temperatures, coins, 4).tokens

    alone = [
        draw(*(part[row, None] for part in (logits, temperatures, coins)), 4).tokens[0]
        for row in range(6)
    ]
    assert together.tolist() == [int(token) for token in alone]


def test_padding_of_the_last_block_is_never_drawn():
    logits = torch.zeros(1, 22)
    coins = torch.full((1, 2), 1 - 2**-53, dtype=torch.float64)
    assert int(draw(logits, torch.ones(1), coins, 4).tokens) == 21
