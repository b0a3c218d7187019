"""Drafters: what they propose, what they declare, and what they keep between steps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specdecode.drafting import make_drafter
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.registry import _COPYING, _QUANTISED
from specdecode.errors import ModelMismatchError, ModelNotFoundError
from specdecode.models import KVCache, load_model
from specdecode.models.source import is_derived
from tests.tiny_models import WORDS, write_tiny_model

CPU = torch.device("cpu")


def lookup(contexts, wanted, **options):
    drafter = PromptLookupDrafter(50, CPU, **options)
    drafter.begin(len(contexts), 100, KVCache(0, 0))
    return drafter.propose(contexts, wanted, sample=None)


def drafted(proposal):
    return [
        row[:length] for row, length in zip(proposal.tokens.tolist(), proposal.lengths, strict=True)
    ]


def test_lookup_copies_what_followed_before():
    assert drafted(lookup([[1, 2, 3, 4, 5, 1, 2, 3]], [2])) == [[4, 5]]


def test_lookup_prefers_the_longest_match_then_the_latest():
    context = [1, 2, 3, 9, 7, 2, 3, 8, 7, 2, 3, 6, 1, 2, 3]
    assert drafted(lookup([context], [1])) == [[9]]  # 1 2 3 beats the later 2 3
    assert drafted(lookup([[*context[4:12], 2, 3]], [1])) == [[6]]


def test_lookup_without_a_match_drafts_nothing():
    proposal = lookup([[1, 2, 3], [4, 5, 4, 5, 4]], [3, 3])
    assert drafted(proposal) == [[], [5, 4]]


@given(
    context=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    most=st.integers(0, 6),
)
def test_lookup_declares_a_point_mass_on_a_copied_piece(context, most):
    proposal = lookup([context], [most])
    (piece,) = drafted(proposal)
    assert len(piece) <= most
    if piece:
        text = "".join(map(str, context))
        assert "".join(map(str, piece)) in text
        assert torch.equal(proposal.probs[0].argmax(-1)[: len(piece)], torch.tensor(piece))
        assert torch.equal(proposal.probs.sum(-1), torch.ones(1, len(piece)))


def argmax(logits, drawn, index):
    laws = logits.softmax(-1)
    return laws.argmax(-1), laws


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write_tiny_model(tmp_path_factory.mktemp("draft"), seed=4)
    return load_model(folder, device="cpu", dtype="float64")


@pytest.mark.parametrize("following", [[11], [11, 12, 3]], ids=["next step", "steps later"])
@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_state_after_any_rejection_equals_a_fresh_start(model, kept, following):
    """After full acceptance the cache lacks one token; after a rejection it holds wrong ones."""
    contexts = [[3, 4, 5], [6, 7, 8, 9, 10]]
    used = ModelDrafter("m", model.network, 256)
    used.begin(2, 40, KVCache(0, 0))
    first = used.propose(contexts, [3, 3], argmax)
    longer = [
        c + row[:kept] + following for c, row in zip(contexts, first.tokens.tolist(), strict=True)
    ]

    again = used.propose(longer, [3, 3], argmax)

    fresh = ModelDrafter("m", model.network, 256)
    fresh.begin(2, 40, KVCache(0, 0))
    expected = fresh.propose(longer, [3, 3], argmax)
    assert torch.equal(again.tokens, expected.tokens)
    torch.testing.assert_close(again.probs, expected.probs)


def test_rows_that_outgrow_the_drafts_context_draft_nothing(model):
    drafter = ModelDrafter("m", model.network, max_context=5)
    drafter.begin(3, 40, KVCache(0, 0))

    proposal = drafter.propose([[3] * 4, [3] * 5, [3] * 9], [3, 3, 3], argmax)

    assert proposal.lengths == [1, 0, 0]


def test_a_long_prompt_is_read_in_pieces(model, monkeypatch):
    from specdecode.models import prefill

    contexts = [[3, 4, 5, 6, 7, 8, 9, 10, 11], [5, 6]]
    whole = ModelDrafter("m", model.network, 256)
    whole.begin(2, 40, KVCache(0, 0))
    expected = whole.propose(contexts, [2, 2], argmax)
    monkeypatch.setattr(prefill, "PREFILL_CHUNK", 4)
    pieces = ModelDrafter("m", model.network, 256)
    pieces.begin(2, 40, KVCache(0, 0))

    found = pieces.propose(contexts, [2, 2], argmax)

    assert torch.equal(found.tokens, expected.tokens)


def test_a_draft_with_another_tokenizer_is_refused(model, tmp_path):
    other = write_tiny_model(tmp_path, words=(*WORDS[1:], WORDS[0]))
    with pytest.raises(ModelMismatchError, match="different tokenizers"):
        make_drafter(str(other), model)


def test_a_draft_with_another_vocabulary_size_is_refused(model, tmp_path):
    folder = write_tiny_model(tmp_path)
    smaller = load_model(folder, device="cpu")
    smaller.config.vocab_size -= 1
    with pytest.raises(ModelMismatchError, match="scores 21 tokens"):
        make_drafter(str(model.path), smaller)


def test_quantising_a_model_without_linear_layers_is_refused(tmp_path):
    model = load_model(write_tiny_model(tmp_path, "qwen2"), device="cpu")
    model.module.model.layers = torch.nn.ModuleList()
    with pytest.raises(ModelMismatchError, match="no linear layers"):
        make_drafter("self-int4", model)


def test_a_draft_that_is_not_there_is_named(model):
    with pytest.raises(ModelNotFoundError, match="no/such/draft"):
        make_drafter("no/such/draft", model)


@pytest.mark.parametrize("spec", [*_QUANTISED, *_COPYING])
def test_a_draft_that_is_no_model_source_is_not_looked_for_as_one(spec):
    assert is_derived(spec)
