import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specdecode.audit.directions import centred_bets, directions, expected_bets
from tests.audit.toys import tables, top_k


@st.composite
def laws(draw):
    vocab = draw(st.integers(2, 8))
    weights = st.lists(st.floats(0, 1), min_size=vocab, max_size=vocab).filter(
        lambda values: sum(values) > 1e-3
    )
    p, q = (torch.tensor(draw(weights), dtype=torch.float64) for _ in range(2))
    return p / p.sum(), q / q.sum()


@given(laws())
def test_every_bet_is_fair_under_the_target_and_bounded(pair):
    p, q = pair
    vocab = len(p)
    chosen = directions(with_draft=True, with_recent=True)
    recent = torch.tensor([[0, 1, 0, -1]]).expand(vocab, -1)
    bets = centred_bets(
        p.expand(vocab, -1), torch.arange(vocab), q.expand(vocab, -1), chosen, recent
    )

    assert list(chosen) == ["draft", "sharper", "flatter", "tail", "order", "repeat", "latest"]
    assert torch.allclose((p[:, None] * bets).sum(0), torch.zeros(7, dtype=torch.float64))
    assert (bets >= -1 - 1e-12).all()
    assert (bets <= 2).all()


@given(laws(), laws())
def test_the_expected_bet_is_the_mean_over_all_tokens_of_the_law_drawn_from(pair, other):
    p, q = pair
    size = min(len(p), len(other[0]))
    p, q, law = (row[:size] + 1e-9 for row in (p, q, other[0]))
    p, q, law = p / p.sum(), q / q.sum(), law / law.sum()
    chosen = directions(with_draft=True)
    each = centred_bets(p.expand(size, -1), torch.arange(size), q.expand(size, -1), chosen)

    found = expected_bets(p[None], law[None], q[None], chosen)

    assert torch.allclose(found[0], law @ each)
    assert torch.allclose(
        expected_bets(p[None], p[None], q[None], chosen), torch.zeros(()).double()
    )


def test_tokens_outside_the_target_s_support_bet_nothing_on_average():
    p, law = torch.tensor([[0.5, 0.5, 0.0]]).double(), torch.tensor([[0.2, 0.3, 0.5]]).double()
    q = torch.tensor([[0.6, 0.3, 0.1]]).double()
    chosen = directions(with_draft=True)
    each = centred_bets(p.expand(3, -1), torch.arange(3), q.expand(3, -1), chosen)

    assert torch.allclose(expected_bets(p, law, q, chosen), law @ each)


def test_the_draft_counts_within_the_target_s_support_only():
    """q = (0.45, 0.05, 0.5) is (0.9, 0.1) where p has mass: 0.9 / 0.3 is clipped at 2."""
    p, q = torch.tensor([[0.3, 0.7, 0.0]]).double(), torch.tensor([[0.45, 0.05, 0.5]]).double()
    bets = centred_bets(p, torch.tensor([0]), q, {"draft": directions(with_draft=True)["draft"]})

    assert bets.item() == pytest.approx(2 - (0.3 * 2 + 0.1))


def test_float32_rows_of_a_large_vocabulary_give_the_bets_of_exact_ones():
    generator = torch.Generator().manual_seed(0)
    target, draft = (3 * torch.randn(1, 50_000, generator=generator) for _ in range(2))
    tokens = torch.arange(40)

    def bets(dtype):
        p, q = (logits.to(dtype).softmax(-1).expand(40, -1) for logits in (target, draft))
        return centred_bets(p, tokens, q, directions(with_draft=True))

    assert torch.allclose(bets(torch.float32), bets(torch.float64), atol=1e-5)


def test_tokens_that_lean_the_faults_way_win_the_bet_on_average():
    target, draft = tables()
    p, q = target.softmax(-1), draft.softmax(-1)
    names = list(directions(with_draft=True))

    def mean_bet(law):
        bets = torch.stack(
            [
                centred_bets(p, torch.full((len(p),), y), q, directions(with_draft=True))
                for y in range(p.shape[-1])
            ],
            dim=1,
        )
        return dict(zip(names, (law.unsqueeze(-1) * bets).sum(1).mean(0).tolist(), strict=True))

    assert mean_bet(q)["draft"] > 0.02
    assert mean_bet((target / 0.5).softmax(-1))["sharper"] > 0.02
    assert mean_bet((target / 2).softmax(-1))["flatter"] > 0.02
    late = p * (1 + 0.2 * (2 * p.cumsum(-1) - p - 1))
    assert mean_bet(late)["order"] > 0.02
    assert mean_bet(p) == pytest.approx(dict.fromkeys(names, 0.0), abs=1e-12)


def test_an_impossible_token_is_no_bet():
    target, draft = tables()
    p, q = top_k(target, 3).softmax(-1), draft.softmax(-1)
    worst = target.argmin(-1)

    assert not centred_bets(p, worst, q, directions(with_draft=True)).any()


def test_a_draft_without_mass_on_the_support_bets_nothing():
    p = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
    q = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    bets = centred_bets(p, torch.tensor([0]), q, directions(with_draft=True))

    assert bets[0, 0] == 0
    assert torch.isfinite(bets).all()


def test_the_draft_direction_exists_only_with_a_draft():
    assert "draft" not in directions(with_draft=False)
    with pytest.raises(ValueError, match="draft"):
        centred_bets(torch.ones(1, 1), torch.zeros(1, dtype=int), None, directions(with_draft=True))
