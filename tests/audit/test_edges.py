import pytest
import torch

from specdecode.audit.edges import border_tie
from specdecode.audit.rows import AuditRow
from specdecode.decoding.params import SamplingParams

LOGITS = torch.tensor([3.0, 2.0, 1.0, 0.99, -1.0, -9.0])


def is_tie(token, tolerance, logits=LOGITS, **params):
    row = AuditRow("row 0", None, [0], [token], SamplingParams(**params), None, None)
    return border_tie(logits, row, 0, tolerance)


@pytest.mark.parametrize("params", [{"top_k": 3}, {"min_p": 0.1351}, {"top_p": 0.907}])
def test_a_token_just_outside_the_border_is_a_tie_only_within_the_tolerance(params):
    assert is_tie(3, 0.02, **params)
    assert not is_tie(3, 0.001, **params)
    assert not is_tie(4, 0.02, **params)


def test_a_low_temperature_stretches_the_tolerance_with_the_logits():
    assert is_tie(3, 0.006, top_k=3, temperature=0.1)
    assert not is_tie(3, 0.004, top_k=3, temperature=0.1)


def test_a_repetition_penalty_stretches_the_tolerance():
    # Token 0 stands in the prompt: 3.0 / 1.5 = 2.0 ties with token 1 exactly.
    assert is_tie(3, 0.004, top_k=3, repetition_penalty=1.5)


def test_mass_moves_the_nucleus_border_by_more_than_the_neighbouring_logit():
    """Many tokens share the border: a small change of the head lets in one far down the list."""
    logits = torch.cat([torch.tensor([8.0]), torch.linspace(0.1, 0.0, 300)])
    probs = logits.softmax(-1)
    border = float(probs[:150].sum())

    assert is_tie(160, 0.02, logits, top_p=border)
    assert not is_tie(300, 0.02, logits, top_p=border)


def test_a_banned_token_is_never_a_tie():
    assert not is_tie(1, 10.0, top_k=1, logit_bias={1: -1e4})


def test_an_unfiltered_law_has_no_border():
    logits = torch.tensor([0.0, -500.0])  # underflows to 0 in float32

    assert not is_tie(1, 0.1, logits)
