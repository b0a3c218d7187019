"""Reading texts in chunks: any chunk, any split between held and missing tokens, one result."""

from __future__ import annotations

import pytest
import torch

from specdecode.models import KVCache, load_model, prefill
from specdecode.models.prefill import read_tokens, score_tokens
from tests.tiny_models import write_tiny_model

TEXTS = [[3, 4, 5, 6, 7, 8, 9, 10, 11], [5, 6], [8]]
DRAFTED = torch.tensor([[4, 4], [9, 3], [2, 12]])


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = write_tiny_model(tmp_path_factory.mktemp("prefill"), seed=4)
    return load_model(folder, device="cpu", dtype="float64").network


def alone(network, tokens):
    return network.forward(torch.tensor([tokens]), [0], KVCache(1, 30))[0]


@pytest.mark.parametrize("chunk", [1, 2, 4, 512])
def test_reading_gives_what_follows_each_text(network, monkeypatch, chunk):
    monkeypatch.setattr(prefill, "PREFILL_CHUNK", chunk)
    cache = KVCache(3, 30)

    found = read_tokens(network, TEXTS, [0, 0, 0], cache)

    expected = torch.stack([alone(network, text)[-1] for text in TEXTS])
    torch.testing.assert_close(found, expected)
    more = [[*text, 13, 2, 9] for text in TEXTS]
    again = read_tokens(network, more, [len(text) for text in TEXTS], cache)
    torch.testing.assert_close(again, torch.stack([alone(network, text)[-1] for text in more]))


@pytest.mark.parametrize("held", [0, 1])
@pytest.mark.parametrize("chunk", [1, 2, 4, 512])
def test_scoring_rates_the_draft_behind_what_was_missing(network, monkeypatch, chunk, held):
    monkeypatch.setattr(prefill, "PREFILL_CHUNK", chunk)
    cache, starts = KVCache(3, 30), [0, 0, 0]
    if held:
        starts = [6, 1, 0]
        read_tokens(
            network, [t[: s or 1] for t, s in zip(TEXTS, starts, strict=True)], [0] * 3, cache
        )

    widths = []
    whole = network.forward

    def forward(tokens, *rest, **options):
        widths.append(tokens.shape[1])
        return whole(tokens, *rest, **options)

    monkeypatch.setattr(network, "forward", forward)
    found = score_tokens(network, TEXTS, starts, DRAFTED, cache)
    monkeypatch.undo()

    assert max(widths) <= chunk + 2
    for row, text in enumerate(TEXTS):
        expected = alone(network, text + DRAFTED[row].tolist())[-3:]
        torch.testing.assert_close(found[row], expected)
