"""Teacher forcing equals what the model said when it decoded."""

from __future__ import annotations

import pytest
import torch

from specdecode.decoding.scoring import TeacherForcing, stepwise, stepwise_over, teacher_forced
from specdecode.drafting import drafting_network
from specdecode.models import KVCache, load_model
from specdecode.models.prefill import read_tokens
from tests.tiny_models import write_tiny_model

PAIRS = [([3, 4, 5], [6, 7]), ([8], [9, 10, 11, 12, 3]), ([5] * 12, [4]), ([7, 7], [8, 8, 8])]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_model(write_tiny_model(tmp_path_factory.mktemp("m")), device="cpu", dtype="float64")


@pytest.mark.parametrize("batch_tokens", [1, 16, 1000])
def test_batched_scores_equal_one_token_at_a_time(model, batch_tokens):
    scored = list(teacher_forced(model, PAIRS, batch_tokens=batch_tokens))

    assert [index for index, _ in scored] == [0, 1, 2, 3]
    for index, logits in scored:
        assert logits.shape == (len(PAIRS[index][1]), model.vocab_size)
        torch.testing.assert_close(logits, stepwise(model, PAIRS[index]))


@pytest.mark.parametrize("kept_bytes", [0, 3000, 10**6])
def test_kept_prompts_change_no_score(model, kept_bytes):
    scorer = TeacherForcing(model, batch_tokens=16, kept_bytes=kept_bytes)
    replies = [([3, 4, 5], [6, 7]), ([5] * 12, [4]), ([3, 4, 5], [9]), ([5] * 12, [3, 3])]
    list(scorer.score(PAIRS))

    scored = list(scorer.score(replies))

    for index, logits in scored:
        torch.testing.assert_close(logits, stepwise(model, replies[index]))


@pytest.mark.parametrize("draft", ["self-int8", "early-exit:1"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_draft_over_the_target_s_states_sees_none_of_its_own(model, draft, pair):
    network, reads_target = drafting_network(draft, model)
    assert reads_target
    prompt, reply = pair

    scored = stepwise_over(model.network, network, pair)

    for t in range(len(reply)):
        context, cache = [*prompt, *reply[:t]], KVCache(1, 40)
        if len(context) > 1:
            read_tokens(model.network, [context[:-1]], [0], cache)
        alone = network.forward(torch.tensor([context[-1:]]), [len(context) - 1], cache)[0, -1]
        torch.testing.assert_close(scored[t], alone)
