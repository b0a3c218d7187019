"""The layers as they are trained are those that transformers runs."""

from __future__ import annotations

import pytest
import torch

from specdecode.distil.body import normed_states
from specdecode.models import load_model

TOKENS = torch.tensor([[2, 9, 4, 6, 3, 3, 8], [5, 2, 2, 7, 0, 0, 0]])


@pytest.fixture
def body(target):
    """With its own gradients."""
    return load_model(target, "cpu", "float32").module.model.requires_grad_(requires_grad=True)


def gradients(body, states):
    body.zero_grad()
    (states * torch.linspace(-1, 1, states.numel()).view(states.shape)).sum().backward()
    return {name: p.grad.clone() for name, p in body.named_parameters() if p.grad is not None}


def test_states_and_gradients_are_those_of_transformers(body):
    mine = normed_states(body, TOKENS, torch.float32)
    theirs = body(input_ids=TOKENS, use_cache=False).last_hidden_state

    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    own, exact = gradients(body, mine), gradients(body, theirs)
    assert own.keys() == exact.keys()
    for name, gradient in own.items():
        torch.testing.assert_close(gradient, exact[name], rtol=1e-3, atol=1e-3, msg=name)


def test_padding_at_the_end_is_not_seen(body):
    alone = normed_states(body, TOKENS[1:, :4], torch.float32)
    torch.testing.assert_close(normed_states(body, TOKENS, torch.float32)[1, :4], alone[0])


def test_rounded_states_and_their_gradients_are_near(body):
    exact = normed_states(body, TOKENS, torch.float32)
    rounded = normed_states(body, TOKENS, torch.bfloat16)

    assert rounded.dtype == torch.bfloat16
    assert relative_error(rounded.detach().float(), exact.detach()) < 0.01
    mine, theirs = gradients(body, rounded.float()), gradients(body, exact)
    assert mine.keys() == theirs.keys()
    for name, gradient in mine.items():
        assert gradient.dtype == torch.float32
        assert relative_error(gradient, theirs[name]) < 0.01, name


def relative_error(found, exact):
    return float((found - exact).square().sum() / exact.square().sum())
