"""Misuse raises a ValueError that says what is wrong, in which tensor, row and position."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from specdecode.errors import UserError
from specdecode.verification import RULES, Coins
from tests.strategies import Inputs

B, G, V = 3, 2, 4


def good():
    return Inputs(
        torch.tensor([[0, 1], [2, 3], [1, 1]]),
        torch.full((B, G, V), 0.25),
        torch.full((B, G + 1, V), 0.25),
        Coins(torch.full((B, G), 0.5), torch.full((B,), 0.5)),
        torch.tensor([2, 2, 1]),
    )


def put(tensor, place, value):
    changed = tensor.clone()
    changed[place] = value
    return changed


def draft_tokens(value):
    return lambda c: replace(c, draft_tokens=value(c.draft_tokens))


def draft_probs(value):
    return lambda c: replace(c, draft_probs=value(c.draft_probs))


def target_probs(value):
    return lambda c: replace(c, target_probs=value(c.target_probs))


def coins(accept=lambda t: t, resample=lambda t: t):
    return lambda c: replace(c, coins=Coins(accept(c.coins.accept), resample(c.coins.resample)))


def lengths(value):
    return lambda c: replace(c, lengths=value(c.lengths))


MISUSE = {
    "int32 tokens": (draft_tokens(lambda t: t.int()), r"draft_tokens: expected int64"),
    "float tokens": (draft_tokens(lambda t: t.float()), r"draft_tokens: expected int64"),
    "flat tokens": (draft_tokens(lambda t: t[0]), r"draft_tokens: expected int64 \[B, G\]"),
    "draft rows for fewer requests": (
        draft_probs(lambda t: t[:2]),
        r"draft_probs: expected \[3, 2, 4\], got \[2, 2, 4\] \(first row without a partner: 2\)",
    ),
    "target without a bonus row": (
        target_probs(lambda t: t[:, :-1]),
        r"target_probs: expected \[3, 3, 4\], got \[3, 2, 4\]",
    ),
    "flat target": (target_probs(lambda t: t[0]), r"target_probs: expected float \[B, G \+ 1, V\]"),
    "no vocabulary": (target_probs(lambda t: t[..., :0]), r"target_probs: expected float"),
    "vocabularies differ": (draft_probs(lambda t: t[..., :3]), r"draft_probs: expected"),
    "integer probabilities": (
        draft_probs(lambda t: t.long()),
        r"draft_probs: expected a floating dtype, got torch.int64",
    ),
    "too few accept coins": (coins(accept=lambda t: t[:, :1]), r"coins.accept: expected \[3, 2\]"),
    "too few resample coins": (
        coins(resample=lambda t: t[:1]),
        r"coins.resample: expected \[3\], got \[1\] \(first row without a partner: 1\)",
    ),
    "length too long": (
        lengths(lambda t: put(t, 1, 3)),
        r"lengths, row 1: got 3, but a length is 0 to 2",
    ),
    "negative length": (lengths(lambda t: put(t, 2, -1)), r"lengths, row 2: got -1"),
    "int32 lengths": (lengths(lambda t: t.int()), r"lengths: expected int64 \[3\]"),
    "too few lengths": (
        lengths(lambda t: t[:2]),
        r"lengths: expected int64 \[3\], got int64 \[2\]",
    ),
    "token beyond the vocabulary": (
        draft_tokens(lambda t: put(t, (1, 0), V)),
        r"draft_tokens, row 1, position 0: got 4, but a token id is 0 to 3",
    ),
    "placeholder inside the length": (
        draft_tokens(lambda t: put(t, (1, 1), -1)),
        r"draft_tokens, row 1, position 1: got -1",
    ),
    "negative draft probability": (
        draft_probs(lambda t: put(t, (1, 1), torch.tensor([0.5, -0.25, 0.5, 0.25]))),
        r"draft_probs, row 1, position 1: holds a negative probability \(-0.25\)",
    ),
    "unnormalised draft row": (
        draft_probs(lambda t: put(t, (2, 0), torch.full((V,), 0.3))),
        r"draft_probs, row 2, position 0: sums to 1.2, not 1",
    ),
    "row of zeros": (
        draft_probs(lambda t: put(t, (2, 0), torch.zeros(V))),
        r"draft_probs, row 2, position 0: sums to 0, not 1",
    ),
    "row a thousandth short": (
        target_probs(lambda t: put(t, (0, 0), torch.tensor([0.249, 0.25, 0.25, 0.25]))),
        r"target_probs, row 0, position 0: sums to 0.999, not 1",
    ),
    "NaN in a draft row": (
        draft_probs(lambda t: put(t, (0, 1, 2), math.nan)),
        r"draft_probs, row 0, position 1: holds NaN or infinity",
    ),
    "NaN in the bonus row": (
        target_probs(lambda t: put(t, (1, 2, 0), math.nan)),
        r"target_probs, row 1, position 2: holds NaN or infinity",
    ),
    "infinity": (
        target_probs(lambda t: put(t, (1, 0, 0), math.inf)),
        r"target_probs, row 1, position 0: holds NaN or infinity",
    ),
    "bonus row of a short draft": (
        target_probs(lambda t: put(t, (2, 1, 0), math.nan)),
        r"target_probs, row 2, position 1: holds NaN or infinity",
    ),
    "logits for probabilities": (
        target_probs(lambda t: t * 40 - 8),
        r"target_probs, row 0, position 0: sums to 8",
    ),
    "accept coin of 1": (
        coins(accept=lambda t: put(t, (1, 0), 1.0)),
        r"coins.accept, row 1, position 0: got 1.0, but a coin is in \[0, 1\)",
    ),
    "negative accept coin": (
        coins(accept=lambda t: put(t, (0, 1), -0.5)),
        r"coins.accept, row 0, position 1: got -0.5",
    ),
    "NaN accept coin": (
        coins(accept=lambda t: put(t, (0, 1), math.nan)),
        r"coins.accept, row 0, position 1: got nan",
    ),
    "resample coin of 1": (
        coins(resample=lambda t: put(t, 2, 1.0)),
        r"coins.resample, row 2: got 1.0",
    ),
    "NaN resample coin": (
        coins(resample=lambda t: put(t, 2, math.nan)),
        r"coins.resample, row 2: got nan",
    ),
    "two devices": (
        coins(resample=lambda t: t.to("meta")),
        r"coins.resample is on meta, draft_tokens on cpu",
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", MISUSE)
def test_misuse_raises_a_value_error_naming_the_place(rule, case):
    spoil, message = MISUSE[case]

    with pytest.raises(ValueError, match=message) as caught:
        spoil(good()).run(RULES[rule])

    assert isinstance(caught.value, UserError)


@pytest.mark.parametrize("rule", RULES)
def test_the_unspoilt_arguments_pass(rule):
    assert good().run(RULES[rule]).num_accepted.shape == (B,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_softmax_in_its_own_dtype_passes(dtype):
    rng = torch.Generator().manual_seed(0)
    draft = torch.softmax(6 * torch.randn(B, G, 50_000, generator=rng).to(dtype), -1)
    target = torch.softmax(6 * torch.randn(B, G + 1, 50_000, generator=rng).to(dtype), -1)

    found = RULES["block"](good().draft_tokens, draft, target, good().coins)

    assert found.num_accepted.shape == (B,)
