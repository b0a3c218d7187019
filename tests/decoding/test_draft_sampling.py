"""Draft sampling: the target's parameters and history at every depth, and no coin used twice."""

from __future__ import annotations

import itertools

import pytest
import torch

from specdecode import SamplingParams
from specdecode.decoding.coins import CoinStream, Purpose
from specdecode.decoding.distributions import distributions
from specdecode.decoding.draft_sampling import DraftSampler
from specdecode.decoding.request import Request

CPU = torch.device("cpu")
V = 7
PENALTIES = {"repetition_penalty": 1.7, "presence_penalty": 0.6, "frequency_penalty": 0.3}


def request(prompt, output, **params):
    made = Request(prompt, SamplingParams(seed=3, **params), 3, frozenset(), None, 50)
    made.output = output
    return made


def requests(**params):
    return [request([1, 2, 3], [4], **params), request([5, 5], [6, 0, 1], **params)]


@pytest.mark.parametrize("law", [{}, {"temperature": 0.7, "top_k": 3}, PENALTIES])
@pytest.mark.parametrize("offset", [0, 1])
def test_laws_follow_the_tokens_of_the_block_decided_before(law, offset):
    batch = requests(**law)
    logits = torch.randn(2, 2, V, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    pending, drafted = [[3, 3], [2]], torch.tensor([[0, 4], [6, 6]])
    below = DraftSampler(batch, 9, CPU, 4).below(0, [[3], []], 4).below(1, [[3], [2]], 4)

    found = below.laws(logits, drafted, offset)

    for row, t in itertools.product(range(2), range(2)):
        context = batch[row].tokens + pending[row] + drafted[row, : offset + t].tolist()
        params, prompt = batch[row].params, len(batch[row].prompt)
        expected = distributions(logits[row, t, None], params, [context], prompt)[0]
        torch.testing.assert_close(found[row, t], expected, rtol=0, atol=0)


def test_a_token_is_drawn_from_the_law_that_is_stated():
    batch = requests(top_k=2, **PENALTIES)
    logits = torch.randn(2, V, generator=torch.Generator().manual_seed(2))
    drawn = torch.tensor([[2], [3]])
    counts = torch.zeros(2, V)
    for step in range(2000):
        tokens, law = DraftSampler(batch, step, CPU, 2).below(0, [[1], []], 2)(logits, drawn, 1)
        counts[[0, 1], tokens] += 1
    assert torch.equal(counts > 0, law > 0)
    assert (counts / 2000 - law).abs().max() < 0.05


def test_no_coin_is_used_for_two_decisions(monkeypatch):
    keys, values = [], []
    honest = CoinStream.draw

    def draw(self, purpose, index, count, part=0):
        drawn = honest(self, purpose, index, count, part)
        keys.append((purpose, index, part))
        values.extend(drawn.tolist())
        return drawn

    monkeypatch.setattr(CoinStream, "draw", draw)
    one = [request([1], [2])]
    for step in range(3):
        top = DraftSampler(one, step, CPU, 4)
        for turn in range(3):
            middle = top.below(turn, [[0] * turn], 4)
            middle.coins(4)
            for inner in range(3):
                middle.below(inner, [[0] * inner], 4).coins(4)

    assert len(set(keys)) == len(keys)
    assert len(set(values)) == len(values)
    assert {key[0] for key in keys} == {
        *(Purpose.DRAFT, Purpose.BELOW_DRAFT, Purpose.BELOW_ACCEPT, Purpose.BELOW_RESAMPLE)
    }


def test_a_longer_block_does_not_change_the_first_coins():
    logits = torch.zeros(2, V)
    short, long = (DraftSampler(requests(), 1, CPU, width) for width in (2, 9))
    assert torch.equal(short(logits, None, 0)[0], long(logits, None, 0)[0])
