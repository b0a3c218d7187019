"""What is written side by side is what would be written alone, and its laws are the target's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specdecode.distil.lanes import Script, write_conversations
from specdecode.distil.texts import CONTEXT, GIVEN_TURN, REPLY, WRITTEN_TURN
from specdecode.models import load_model
from tests.distil.conftest import VOCABULARY

KEPT = 5


@pytest.fixture(scope="module")
def model(target):
    return load_model(target, "cpu", "float32")


def script(number, user=None, between=(3, 15), before=(2, 9, 4), reply_tokens=12):
    coins = np.random.Generator(np.random.Philox(key=number)).random((5 + reply_tokens, 2))
    return Script(before, user, between, 5, reply_tokens, (1.0, 0.7)[number % 2], coins)


def scripts():
    """Thirty: the target's own turns, given ones of unlike lengths, and other templates."""
    made = [script(number) for number in range(20)]
    made += [script(20 + n, user=tuple(range(2, 3 + n)), before=(2,) * (1 + n)) for n in range(6)]
    return made + [script(26 + n, before=(7,), reply_tokens=40) for n in range(4)]


def written(model, lanes, those=None):
    return write_conversations(
        model.network, those or scripts(), model.eos_token_ids, lanes=lanes, kept=KEPT
    )


@pytest.fixture(scope="module")
def alone(model):
    return written(model, 1)


@pytest.mark.parametrize("lanes", [2, 5, 13, 64])
def test_neighbours_and_refills_change_no_conversation(model, alone, lanes):
    together = written(model, lanes)

    assert len(together) == len(alone) == len(scripts())
    assert any(text is None for text in alone) or all(len(t.scored) for t in alone)
    for one, other in zip(together, alone, strict=True):
        assert (one is None) is (other is None)
        if one is not None and other is not None:
            assert torch.equal(one.tokens, other.tokens)
            assert torch.equal(one.kinds, other.kinds)
            torch.testing.assert_close(one.top_probs, other.top_probs)


def test_kept_laws_are_the_targets_before_each_written_token(model, alone):
    seen = 0
    for text in alone:
        if text is None:
            continue
        with torch.no_grad():
            law = model.module(text.tokens[None]).logits[0].softmax(-1)[text.scored - 1]
        top = law.topk(KEPT)
        torch.testing.assert_close(text.top_probs, top.values, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(text.tail, 1 - top.values.sum(-1), rtol=1e-2, atol=1e-5)
        assert len(text.scored) == len(text.top_ids)
        seen += len(text.scored)
    assert seen > 200


def test_a_conversation_has_the_templates_parts_in_order(model, alone):
    ends = model.eos_token_ids
    for one, text in zip(scripts(), alone, strict=True):
        if text is None:
            continue
        turn = text.part(WRITTEN_TURN, GIVEN_TURN)
        reply = text.part(REPLY)
        assert text.tokens.tolist() == [*one.before, *turn, *one.between, *reply]
        kinds = [CONTEXT] * len(one.before)
        kinds += [WRITTEN_TURN if one.user is None else GIVEN_TURN] * len(turn)
        assert text.kinds.tolist() == [*kinds, *[CONTEXT] * len(one.between), *[REPLY] * len(reply)]
        assert not set(turn) & ends
        assert not set(reply[:-1]) & ends
        assert reply[-1] in ends or len(reply) == one.reply_tokens
        assert one.user in (None, tuple(turn))


def test_tokens_are_drawn_from_the_targets_law(model):
    """First tokens of replies to one prompt, under coins that are spread evenly."""
    golden = (5**0.5 - 1) / 2
    those = [
        Script((2, 9), (4, 6), (3,), 1, 1, 0.7, np.full((2, 2), ((n + 0.5) / 1600, n * golden % 1)))
        for n in range(1600)
    ]

    texts = written(model, 100, those)

    found = torch.tensor([text.part(REPLY)[0] for text in texts])
    with torch.no_grad():
        logits = model.module(torch.tensor([[2, 9, 4, 6, 3]])).logits[0, -1]
    law = (logits / 0.7).softmax(-1)
    counts = torch.bincount(found, minlength=VOCABULARY) / len(found)
    assert float((counts - law).abs().sum()) / 2 < 0.01


def test_nothing_between_turn_and_reply_is_no_hole(model):
    """The turn's end leaves nothing to feed: the reply comes of the law it ended with."""
    those = [script(number, between=()) for number in range(40)]
    texts = [text for text in written(model, 8, those) if text is not None]
    assert any(0 < len(text.part(WRITTEN_TURN)) < 5 for text in texts)
    for text in texts:
        with torch.no_grad():
            law = model.module(text.tokens[None]).logits[0].softmax(-1)[text.scored - 1]
        torch.testing.assert_close(text.top_probs, law.topk(KEPT).values, rtol=1e-3, atol=1e-5)


def test_when_it_is_enough_what_was_begun_is_ended_and_no_more(model, alone):
    asked = []

    def is_enough():
        asked.append(None)
        return len(asked) > 7

    found = write_conversations(
        model.network,
        scripts(),
        model.eos_token_ids,
        lanes=5,
        kept=KEPT,
        is_enough=is_enough,
    )

    assert len(found) == 5 + 7
    for one, other in zip(found, alone, strict=False):
        assert (one is None) is (other is None)
        if one is not None:
            assert torch.equal(one.tokens, other.tokens)


def test_no_script_is_no_text(model):
    assert write_conversations(model.network, [], model.eos_token_ids, lanes=4, kept=KEPT) == []
