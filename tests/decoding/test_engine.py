"""What the engine promises beyond the law: greedy equality, independence, ends, counts, errors."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode import Engine, SamplingParams
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import ConfigError, NumericalError, PromptTooLongError
from specdecode.models import load_model
from tests.decoding.toys import TableNetwork, ToyModel
from tests.tiny_models import EOS, write_tiny_model

PROMPTS = [[5, 6, 7], [3, 4, 3, 4, 3, 4, 3], [9], [8, 2, 10, 11, 12, 8, 2, 10, 11]]
RULES = ("token", "block", "match")
DRAFTS = (
    *("self-int4", "self-int8", "early-exit:1", "early-exit:2", "prompt-lookup", "suffix", "model"),
    *("cascade:early-exit:1,model", "cascade:suffix,self-int8"),
)
GREEDY = SamplingParams(max_tokens=30, temperature=0, ignore_eos=True)


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt2"])
def folders(request, tmp_path_factory):
    base = tmp_path_factory.mktemp(request.param)
    return (
        write_tiny_model(base / "target", request.param, seed=1),
        write_tiny_model(base / "draft", request.param, seed=2),
    )


@pytest.fixture(scope="module")
def target(folders):
    return load_model(folders[0], device="cpu", dtype="float64")


def make(target, folders, draft, rule="block", gamma=4):
    spec = draft and re.sub(r"\bmodel$", str(folders[1]), draft)
    return Engine.load(target, spec, verification=rule, num_speculative_tokens=gamma)


@pytest.mark.parametrize(("draft", "rule"), list(itertools.product(DRAFTS, RULES)))
def test_greedy_speculation_equals_plain_decoding_token_for_token(target, folders, draft, rule):
    plain = Engine.load(target).generate(PROMPTS, GREEDY)

    speculative = make(target, folders, draft, rule).generate(PROMPTS, GREEDY)

    assert [r.token_ids for r in speculative] == [r.token_ids for r in plain]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    "law",
    [
        {"repetition_penalty": 1.8},
        {"presence_penalty": 1.5},
        {"frequency_penalty": 0.7},
        {"logit_bias": {5: 4.0, 6: -100.0}},
        {"repetition_penalty": 1.3, "stop": ("cat",)},
    ],
    ids="+".join,
)
def test_parameters_act_on_every_verified_position(target, folders, draft, law):
    params = GREEDY.model_copy(update=law)
    plain = Engine.load(target).generate(PROMPTS, params)

    speculative = make(target, folders, draft).generate(PROMPTS, params)

    assert [r.token_ids for r in speculative] == [r.token_ids for r in plain]


@pytest.mark.parametrize("draft", DRAFTS)
def test_match_gives_plain_decodings_tokens_for_the_same_seed(target, folders, draft):
    params = SamplingParams(max_tokens=30, seed=11, temperature=0.9, top_k=12, top_p=0.95)
    plain = Engine.load(target).generate(PROMPTS, params)

    speculative = make(target, folders, draft, "match").generate(PROMPTS, params)

    assert [r.token_ids for r in speculative] == [r.token_ids for r in plain]


@pytest.mark.parametrize("draft", [None, *DRAFTS])
def test_a_row_does_not_depend_on_its_neighbours(target, folders, draft):
    params = [
        SamplingParams(max_tokens=25, seed=3, temperature=0.8),
        SamplingParams(max_tokens=9, seed=4, temperature=0),
        SamplingParams(max_tokens=25, seed=5, top_p=0.7, repetition_penalty=1.2),
        SamplingParams(max_tokens=1, seed=6),
    ]
    engine = make(target, folders, draft)
    together = engine.generate(PROMPTS, params)

    alone = [engine.generate([p], q)[0] for p, q in zip(PROMPTS, params, strict=True)]

    assert [r.token_ids for r in together] == [r.token_ids for r in alone]
    assert [r.acceptance for r in together] == [r.acceptance for r in alone]


def test_the_same_model_as_draft_is_always_accepted(target, folders):
    engine = Engine.load(target, str(folders[0]), num_speculative_tokens=4)

    result = engine.generate([PROMPTS[0]], SamplingParams(max_tokens=41, seed=1, ignore_eos=True))

    assert result[0].acceptance.acceptance_rate == 1.0
    assert result[0].acceptance.histogram == (0, 0, 0, 0, 8)


@pytest.mark.parametrize("gamma", [1, 4])
def test_the_target_drafting_for_itself_over_its_own_cache_is_always_accepted(target, gamma):
    """A draft that reads or writes the wrong slots stays lossless: only acceptance shows it."""
    engine = Engine(target, SelfDrafter("exact", target.network), "block", gamma)
    params = SamplingParams(max_tokens=2 + 8 * (gamma + 1), seed=1, ignore_eos=True)

    together = engine.generate(PROMPTS, params)

    for result in together:
        steps = result.acceptance.histogram
        assert result.acceptance.acceptance_rate == 1.0
        assert steps[-1] == 8
        assert result.token_ids == engine.generate([result.prompt_token_ids], params)[0].token_ids


def test_seed_decides_the_reply(target):
    engine = Engine.load(target)

    def reply(seed):
        return engine.generate([PROMPTS[0]], SamplingParams(max_tokens=20, seed=seed))[0].token_ids

    assert reply(1) == reply(1)
    assert len({reply(seed) for seed in range(20)}) > 1


def test_without_a_seed_one_is_drawn_and_reported(target):
    engine = Engine.load(target)
    first = engine.generate([PROMPTS[0]], SamplingParams(max_tokens=20))[0]

    again = engine.generate([PROMPTS[0]], SamplingParams(max_tokens=20, seed=first.seed))[0]

    assert again.token_ids == first.token_ids


@pytest.mark.parametrize("draft", [None, "model", "early-exit:2"])
def test_an_end_token_inside_an_accepted_block_ends_the_reply_there(target, folders, draft):
    engine = make(target, folders, draft, gamma=6)
    params = SamplingParams(max_tokens=60, temperature=0, logit_bias={EOS: 6.0})
    free = engine.generate(PROMPTS, params.model_copy(update={"ignore_eos": True}))

    ended = engine.generate(PROMPTS, params)

    for full, cut in zip(free, ended, strict=True):
        until = full.token_ids.index(EOS) + 1 if EOS in full.token_ids else 60
        assert cut.token_ids == full.token_ids[:until]
        assert cut.finish_reason == ("stop" if EOS in full.token_ids else "length")
        assert "<eos>" not in cut.text


@pytest.mark.parametrize("draft", [None, "model", "prompt-lookup"])
def test_a_stop_string_across_tokens_cuts_ids_and_text_alike(target, folders, draft):
    engine = make(target, folders, draft, gamma=5)
    words_only = SamplingParams(max_tokens=30, seed=7, logit_bias={0: -1e4, EOS: -1e4})
    full = engine.generate([PROMPTS[1]], words_only)[0]
    stop = full.text[14:22]  # begins and ends inside tokens
    at = full.text.find(stop)

    cut = engine.generate([PROMPTS[1]], words_only.model_copy(update={"stop": (stop,)}))[0]

    assert cut.text == full.text[:at]
    assert cut.finish_reason == "stop"
    assert cut.token_ids == full.token_ids[: len(cut.token_ids)]
    assert stop in target.tokenizer.decode(list(cut.token_ids))
    assert stop not in target.tokenizer.decode(list(cut.token_ids[:-1]))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(gamma=st.integers(1, 7), tokens=st.integers(1, 40), seed=st.integers(0, 2**62))
def test_counts_add_up(gamma, tokens, seed):
    engine = Engine(ToyModel(TableNetwork(1)), SelfDrafter("self", TableNetwork(2)), "block", gamma)
    result = engine.generate([[0, 1]], SamplingParams(max_tokens=tokens, seed=seed), trace=True)[0]
    a = result.acceptance

    assert len(result.token_ids) == tokens
    assert len(a.histogram) == gamma + 1
    assert sum(a.histogram) == a.steps == len(result.trace)
    assert sum(i * n for i, n in enumerate(a.histogram)) == a.accepted <= a.drafted
    assert 1 + a.accepted + a.steps == tokens  # one token from the prompt, one a step
    assert result.target_tokens == a.drafted + a.steps
    assert sum(len(step.emitted) for step in result.trace) == tokens - 1


def test_the_reply_ends_where_the_context_window_does(target):
    prompt = [3] * (target.max_context - 5)

    result = Engine.load(target).generate([prompt], GREEDY)[0]

    assert len(result.token_ids) == 5
    assert result.finish_reason == "length"


@pytest.mark.parametrize("draft", ["model", "early-exit:1", "prompt-lookup"])
def test_speculation_at_the_edge_of_the_context_window(target, folders, draft):
    prompts = [[3, 4] * ((target.max_context - 6) // 2), [5, 6]]
    plain = Engine.load(target).generate(prompts, GREEDY)

    speculative = make(target, folders, draft, gamma=6).generate(prompts, GREEDY)

    assert [r.token_ids for r in speculative] == [r.token_ids for r in plain]


def test_streaming_gives_the_same_tokens_in_pieces(target, folders):
    engine = make(target, folders, "model")
    params = SamplingParams(max_tokens=20, seed=9)

    events = list(engine.stream(PROMPTS[0], params))

    whole = engine.generate([PROMPTS[0]], params)[0]
    assert tuple(itertools.chain(*(e.token_ids for e in events))) == whole.token_ids
    assert [e.result is not None for e in events] == [False] * (len(events) - 1) + [True]


@pytest.mark.parametrize(
    ("prompt", "error", "says"),
    [
        ([], ConfigError, "prompt 1 is empty"),
        ([3, 10_000], ConfigError, "token id 10000"),
        ([3, -1], ConfigError, "token id -1"),
        ([3] * 256, PromptTooLongError, "256 tokens"),
        ([{"role": "user"}], ConfigError, "'role' and 'content'"),
        ([1.5], ConfigError, "neither text"),
        (7, ConfigError, "prompt 1 is of type int"),
        (None, ConfigError, "prompt 1 is of type NoneType"),
        ("a\ud800", ConfigError, "not valid Unicode"),
        ([{"role": "user", "content": "hi"}], ConfigError, "chat template"),
    ],
)
def test_bad_prompts_are_named_before_any_compute(target, prompt, error, says):
    with pytest.raises(error, match=says):
        Engine.load(target).generate([[3], prompt], GREEDY)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"verification": "blok"}, "unknown verification 'blok'"),
        ({"verification": "greedy-block", "draft": "prompt-lookup"}, "use 'block'"),
        ({"num_speculative_tokens": 0}, "from 1 to 64"),
        ({"num_speculative_tokens": "adaptiv"}, "or 'adaptive'"),
        ({"num_speculative_tokens": 4, "costs": {}}, "with num_speculative_tokens='adaptive' only"),
        ({"num_speculative_tokens": "adaptive", "costs": {}}, "the table is empty"),
        ({"num_speculative_tokens": 2.5}, "whole number"),
        ({"num_speculative_tokens": True}, "whole number"),
        ({"draft": "early-exit:3"}, "K from 1 to 2"),
        ({"draft": "early-exit:x"}, "K from 1 to 2"),
    ],
)
def test_bad_settings_are_refused(target, arguments, says):
    with pytest.raises(ConfigError, match=says):
        Engine.load(target, **arguments)


def test_nan_weights_raise_and_name_the_row(folders):
    model = load_model(folders[0], device="cpu", dtype="float32")
    with torch.no_grad():
        next(model.module.parameters()).fill_(float("nan"))

    with pytest.raises(NumericalError, match="row 0"):
        Engine.load(model).generate([[3, 4]], GREEDY)


@pytest.mark.parametrize(
    ("prompts", "params", "says"),
    [
        ("one text", None, "one text"),
        (None, None, "of type NoneType"),
        ([[3]], {"max_tokens": 3}, "one SamplingParams"),
        ([[3]], [None], "one SamplingParams"),
        ([[3]], [SamplingParams(), SamplingParams()], "1 prompts but 2"),
    ],
)
def test_misuse_of_generate_is_explained(target, prompts, params, says):
    with pytest.raises(ConfigError, match=says):
        Engine.load(target).generate(prompts, params)


@pytest.mark.parametrize("draft", [None, "model"])
def test_parameters_that_leave_no_law_raise_instead_of_emitting_token_zero(target, folders, draft):
    params = SamplingParams(max_tokens=4, logit_bias={2: 1e308, 3: 1.7e308})
    with pytest.raises(NumericalError, match="no probability law"):
        make(target, folders, draft).generate([[3, 4]], params.model_copy(update={"seed": 1}))
