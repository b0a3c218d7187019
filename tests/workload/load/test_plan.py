"""What is planned: lengths and times of traces, repeats, cancellations, names."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError, PromptFileError
from specdecode.workload.load.plan import DEFAULT_MAX_TOKENS, make_plan
from specdecode.workload.load.spec import LoadSpec, base_and_api, manifest_of, manifest_sha256
from tests.workload.load.test_importers import AZURE, MOONCAKE, SHAREGPT

BASE = {"url": "http://x", "model": "m"}


def plan(**values):
    return make_plan(LoadSpec(**BASE | values))


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    lines = [
        {"question_id": f"q{n}", "category": "chat", "turns": [f"question {n}"], "language": "de"}
        for n in range(3)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(AZURE)
    return path


def test_a_trace_gives_times_lengths_and_reply_lengths(trace):
    found = plan(arrivals="trace", trace=trace, speed_up=2.0)
    first, second = found.requests

    assert found.total == 2
    assert (first.due_s, second.due_s) == (0.0, pytest.approx(4.314579 / 2, abs=1e-5))
    assert (first.max_tokens, second.max_tokens) == (44, 109)
    assert len(first.prompt.text().split()) == first.asked_tokens == 374
    assert sum(found.skipped.values()) == 1
    assert found.synthetic


def test_a_trace_may_lend_its_times_to_prompts_from_a_file(trace, prompts):
    found = plan(arrivals="trace", trace=trace, prompts=prompts)
    first, second = found.requests

    assert (first.prompt_id, first.prompt.text(), first.max_tokens) == ("q0", "question 0", 44)
    assert (second.language, second.category) == ("de", "chat")
    assert first.asked_tokens is None


def test_a_trace_may_lend_its_lengths_to_other_arrivals(trace):
    found = plan(arrivals="constant", rate=10.0, trace=trace, requests=2)
    assert [r.due_s for r in found.requests] == [0.0, 0.1]
    assert [r.asked_tokens for r in found.requests] == [374, 396]


def test_prompts_without_times_cannot_be_replayed(tmp_path):
    path = tmp_path / "talk.json"
    path.write_text(SHAREGPT)
    with pytest.raises(ConfigError, match="has no time"):
        plan(arrivals="trace", trace=path)


def test_lengths_cannot_be_sent_as_prompts(trace):
    with pytest.raises(ConfigError, match="pass it as a trace"):
        plan(concurrency=1, requests=1, prompts=trace)


def test_too_few_prompts_are_refused_with_the_way_out(prompts):
    with pytest.raises(ConfigError, match=r"holds 3 requests, 5 were asked for.*--repeats salt"):
        plan(concurrency=1, requests=5, prompts=prompts)


def test_equal_prompts_under_different_names_are_refused(tmp_path):
    path = tmp_path / "p.jsonl"
    line = '{"question_id": "%s", "category": "c", "turns": ["same"]}\n'
    path.write_text(line % "a" + line % "b")
    with pytest.raises(ConfigError, match=r"prompts of a and b are equal.*--repeats salt"):
        plan(concurrency=1, requests=2, prompts=path)


def test_equal_blocks_of_a_trace_are_refused_and_may_be_allowed(tmp_path):
    path = tmp_path / "moon.jsonl"
    path.write_text(MOONCAKE.splitlines()[0] + "\n" + MOONCAKE.splitlines()[0] + "\n")
    with pytest.raises(ConfigError, match="are equal"):
        plan(arrivals="trace", trace=path)
    first, second = plan(arrivals="trace", trace=path, repeats="allow").requests
    assert first.prompt.text() == second.prompt.text()


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 40), st.integers(0, 2**40))
def test_salted_repeats_differ_from_their_first_characters_on(tmp_path_factory, n, seed):
    path = tmp_path_factory.mktemp("p") / "p.jsonl"
    path.write_text('{"question_id": "a", "category": "c", "turns": ["same"]}\n')
    found = list(plan(concurrency=1, requests=n, prompts=path, repeats="salt", seed=seed).requests)

    texts = [request.prompt.text() for request in found]
    assert len({text[:12] for text in texts}) == n
    assert all(text.endswith(" same") for text in texts)
    assert [r.prompt_id for r in found] == ["a", *(f"a~{k}" for k in range(2, n + 1))]


def test_warm_ups_are_never_prompts_of_the_plan(prompts):
    found = plan(concurrency=1, requests=3, prompts=prompts, warm_up=7, repeats="allow")
    measured = {r.prompt.text() for r in found.requests}
    warm = [r.prompt.text() for r in found.warm_ups]

    assert len(set(warm)) == len(warm) == 7
    assert not measured & set(warm)
    assert all(r.warm_up for r in found.warm_ups)


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1), st.integers(0, 2**40))
def test_cancellations_are_a_seeded_share(share, seed):
    def cancelled():
        found = plan(
            concurrency=1, requests=200, input_tokens=3, cancel_share=share, seed=seed,
            cancel_after=4,
        )  # fmt: skip
        return [r.cancel_after for r in found.requests]

    first = cancelled()
    assert first == cancelled()
    assert set(first) <= {None, 4}
    # 200 draws: 6 standard deviations are at most 0.21.
    assert abs(sum(c is not None for c in first) / 200 - share) < 0.22


@pytest.mark.parametrize(
    ("changes", "total"),
    [
        ({"arrivals": "constant", "rate": 10.0, "duration_s": 1.0}, 10),
        ({"arrivals": "constant", "rate": 10.0, "duration_s": 1.0, "requests": 4}, 4),
        ({"arrivals": "constant", "rate": 10.0, "duration_s": 1.0, "requests": 400}, 10),
        ({"concurrency": 2, "requests": 7}, 7),
        ({"concurrency": 2, "duration_s": 7.0}, None),
    ],
)
def test_the_total_is_known_unless_only_a_clock_ends_the_run(changes, total):
    found = plan(input_tokens=5, **changes)
    assert found.total == total
    assert len(list(itertools.islice(found.requests, 1000))) == (1000 if total is None else total)


def test_a_closed_loop_bounded_by_time_uses_each_prompt_once_unless_salted(prompts):
    once = plan(concurrency=1, duration_s=9.0, prompts=prompts)
    again = plan(concurrency=1, duration_s=9.0, prompts=prompts, repeats="salt")

    assert len(list(once.requests)) == 3
    assert len(list(itertools.islice(again.requests, 10))) == 10


def test_a_plan_without_requests_is_refused():
    with pytest.raises(ConfigError, match="no request"):
        plan(arrivals="poisson", rate=0.001, duration_s=0.001, input_tokens=5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"concurrency": 1, "final_rate": 5.0, "ramp_s": 2.0}, "belongs to ramp arrivals"),
        ({"concurrency": 1, "max_in_flight": 5}, "max_in_flight caps an open loop"),
        ({"concurrency": 1, "requests": None}, "give --requests or --duration"),
        ({"concurrency": 1, "input_tokens": None}, "give --prompts, --trace or --input-tokens"),
        ({"concurrency": 1, "vocab_size": 9}, "need --input-tokens and --api completions"),
        ({"concurrency": 1, "url": "127.0.0.1:8000"}, "write it as http://"),
    ],
)
def test_an_option_that_would_be_without_effect_or_is_missing_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        LoadSpec(**BASE | {"requests": 2, "input_tokens": 4} | changes)


def test_a_malformed_file_is_refused_before_anything_is_sent(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(AZURE + "broken\n")
    with pytest.raises(PromptFileError, match="line 5"):
        plan(arrivals="trace", trace=path)


def test_lengths_of_replies_have_a_default_and_an_override(trace):
    assert next(iter(plan(concurrency=1, requests=1, input_tokens=2).requests)).max_tokens == (
        DEFAULT_MAX_TOKENS
    )
    assert next(iter(plan(arrivals="trace", trace=trace, max_tokens=9).requests)).max_tokens == 9


@pytest.mark.parametrize(
    ("url", "api", "expected"),
    [
        ("http://h:1", None, ("http://h:1", None)),
        ("http://h:1/v1/", "chat", ("http://h:1", "chat")),
        ("http://h:1/v1/completions", None, ("http://h:1", "completions")),
        ("http://h:1/api/v1/chat/completions", None, ("http://h:1/api", "chat")),
    ],
)
def test_addresses_are_understood_as_people_write_them(url, api, expected):
    assert base_and_api(url, api) == expected


def test_an_address_that_contradicts_the_api_is_refused():
    with pytest.raises(ConfigError, match="is the chat API"):
        base_and_api("http://h/v1/chat/completions", "completions")


def test_the_manifest_changes_with_spec_file_and_server(trace):
    spec = LoadSpec(**BASE, arrivals="trace", trace=trace)
    first = manifest_sha256(manifest_of(spec, {}))

    assert first == manifest_sha256(manifest_of(spec, {}))
    assert first != manifest_sha256(manifest_of(spec, {"version": "2"}))
    other = spec.model_copy(update={"seed": 1})
    assert first != manifest_sha256(manifest_of(other, {}))
    trace.write_text(AZURE + "2023-11-16 18:17:00,1,1\n")
    assert first != manifest_sha256(manifest_of(spec, {}))
