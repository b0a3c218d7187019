"""Reported log-probabilities: the model's own, for every token, however it was drawn."""

from __future__ import annotations

import itertools

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding import loop
from specdecode.decoding.logprobs import token_logprobs
from specdecode.decoding.scoring import stepwise, teacher_forced
from specdecode.models import load_model
from tests.decoding.drafters import toy_drafters
from tests.decoding.toys import TableNetwork, ToyModel
from tests.tiny_models import write_tiny_model

V = 7
PROMPTS = [[0, 1, 2, 0, 1], [3, 4], [6]]
RULES = ("token", "block", "match")
DRAFTERS = {"none": lambda: None, **toy_drafters(V)}
# Everything that shapes the law the tokens are drawn from must leave what is reported alone.
PARAMS = SamplingParams(
    max_tokens=12,
    seed=5,
    temperature=0.7,
    top_k=4,
    top_p=0.9,
    repetition_penalty=1.3,
    logit_bias={2: 1.5},
    logprobs=3,
)


def network(seed: int) -> TableNetwork:
    return TableNetwork(seed, vocabulary=V, dtype=torch.float64)


def engine(drafter: str, rule: str = "block", **model) -> Engine:
    return Engine(ToyModel(network(1), vocab_size=V, **model), DRAFTERS[drafter](), rule, 3)


def own_logprobs(result, target: TableNetwork) -> list[list[float]]:
    """Teacher-forced, one token at a time, of the whole vocabulary."""
    rows = stepwise(target, (result.prompt_token_ids, result.token_ids))
    return rows.double().log_softmax(-1).tolist()


@pytest.mark.parametrize(("drafter", "rule"), list(itertools.product(DRAFTERS, RULES)))
def test_every_token_is_reported_under_the_models_own_law(drafter, rule):
    results = engine(drafter, rule).generate(PROMPTS, PARAMS)

    for result in results:
        rows = own_logprobs(result, network(1))
        assert [entry.token_id for entry in result.logprobs] == list(result.token_ids)
        for entry, row in zip(result.logprobs, rows, strict=True):
            assert entry.logprob == pytest.approx(row[entry.token_id], abs=1e-9)
            best = sorted(range(V), key=lambda token: (-row[token], token))[:3]
            assert [token for token, _ in entry.top] == best
            assert [value for _, value in entry.top] == pytest.approx(
                [row[token] for token in best], abs=1e-9
            )


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_speculation_reports_what_plain_decoding_reports(drafter, temperature):
    params = PARAMS.model_copy(update={"temperature": temperature})
    plain = engine("none").generate(PROMPTS, params)

    speculative = engine(drafter, "match").generate(PROMPTS, params)

    for one, other in zip(speculative, plain, strict=True):
        assert [(e.token_id, e.logprob) for e in one.logprobs] == [
            (e.token_id, pytest.approx(e.logprob, abs=1e-9)) for e in other.logprobs
        ]
        assert [[t for t, _ in e.top] for e in one.logprobs] == [
            [t for t, _ in e.top] for e in other.logprobs
        ]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_reports_end_where_the_reply_ends(drafter):
    """Inside an accepted block, too: at an end token, a stop string and the limit."""
    ended = engine(drafter, eos_token_ids=frozenset({4})).generate(
        PROMPTS, [PARAMS.model_copy(update={"max_tokens": 40, "seed": s}) for s in (1, 2, 3)]
    )
    assert any(r.finish_reason == "stop" for r in ended)
    for result in [*ended, *engine(drafter).generate(PROMPTS, PARAMS)]:
        assert len(result.logprobs) == len(result.token_ids)


def test_only_those_who_ask_get_a_report():
    quiet = SamplingParams(max_tokens=5, seed=1)
    asking = quiet.model_copy(update={"logprobs": 1})

    results = engine("shared-cache").generate(PROMPTS, [quiet, asking, quiet])

    assert [r.logprobs is None for r in results] == [True, False, True]
    assert all(len(entry.top) == 1 for entry in results[1].logprobs)


def test_without_a_request_for_them_nothing_is_kept_or_computed(monkeypatch):
    monkeypatch.setattr("specdecode.decoding.request.token_logprobs", None)
    kept = []
    continue_from = loop.continue_from

    def spy(batch, step):
        kept.append(batch.logits)
        return continue_from(batch, step)

    monkeypatch.setattr(loop, "continue_from", spy)

    engine("shared-cache").generate(PROMPTS, SamplingParams(max_tokens=6, seed=1))

    assert kept
    assert all(logits is None for logits in kept)


def test_of_equal_tokens_the_lower_id_comes_first():
    logits = torch.tensor([[1.0, 3.0, 3.0, 3.0, 0.0]])
    entry = token_logprobs(logits, [0], 2)[0]
    assert [token for token, _ in entry.top] == [1, 2]


def test_more_than_the_vocabulary_cannot_be_named():
    entry = token_logprobs(torch.zeros(2, 3), [1], 20)[0]
    assert entry.top == tuple((t, pytest.approx(-1.0986122886681098)) for t in range(3))


@pytest.mark.parametrize("draft", ["self-int4", "early-exit:1", "prompt-lookup"])
def test_a_transformer_reports_its_teacher_forced_scores(tmp_path, draft):
    model = load_model(write_tiny_model(tmp_path, "llama", seed=1), device="cpu", dtype="float64")
    params = SamplingParams(max_tokens=20, seed=3, top_p=0.8, logprobs=2, stop=("cat",))

    results = Engine.load(model, draft).generate([[5, 6, 7], [8, 2, 8, 2, 8]], params)

    pairs = [(r.prompt_token_ids, r.token_ids) for r in results]
    for result, (_, logits) in zip(results, teacher_forced(model, pairs), strict=True):
        expected = logits.double().log_softmax(-1)[range(len(result.token_ids)), result.token_ids]
        # The network hands out float32 logits; the passes have different shapes.
        assert [e.logprob for e in result.logprobs] == pytest.approx(expected.tolist(), abs=1e-5)
