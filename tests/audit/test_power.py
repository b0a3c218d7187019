"""The stated minimum of tokens is enough for the fault size it is stated for."""

import math

import numpy as np
import pytest
import torch

from specdecode.audit.report import min_sampled_tokens
from tests.audit.toys import from_draft, log_evidence, residual_is_target, walk

ALPHA = 0.01
VOCAB = 300


def laws(noise):
    """Rows between flat and peaked, as in text, with a heavy tail."""
    generator = torch.Generator().manual_seed(0)
    scale = 0.8 + 2.5 * torch.rand(VOCAB, 1, generator=generator, dtype=torch.float64)
    logits = scale * torch.randn(VOCAB, VOCAB, generator=generator, dtype=torch.float64)
    other = noise * torch.randn(VOCAB, VOCAB, generator=generator, dtype=torch.float64)
    return logits, (logits + other).softmax(-1)


def colder(p, q):
    del q
    warm = p ** (1 / 0.92)
    return warm / warm.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("fault", "noise"), [(from_draft, 0.13), (residual_is_target, 0.27), (colder, 0.2)]
)
def test_a_fault_of_five_percent_total_variation_is_found_within_the_minimum(fault, noise):
    logits, q = laws(noise)
    p = logits.softmax(-1)
    law = fault(p, q)
    visits = np.bincount(walk(law, 20, 500, np.random.default_rng(1)).ravel(), minlength=VOCAB)
    distance = (p - law).abs().sum(-1).numpy() / 2
    mean_distance = float((distance * visits).sum() / visits.sum())
    assert 0.04 < mean_distance < 0.06

    tokens = walk(law, 20, min_sampled_tokens(ALPHA), np.random.default_rng(2))
    found = (log_evidence(tokens, p, q).max(1) >= math.log(1 / ALPHA)).sum()

    assert found >= 18  # 90 %
