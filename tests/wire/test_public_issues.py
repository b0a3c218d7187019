"""Public reports about engines, proxies, event streams and metrics: each has a test, here or there.

What a report says beside the wire (outputs, quality, routing, delivery) is tested where that is.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import httpx
import pytest

from specdecode.workload.engines import ENGINES, differences, error_of, recognise
from tests.wire.engines import ALL, CHAT, LLAMA_CPP, OWN, SGLANG, TEXTS, VLLM
from tests.wire.metrics import ACCEPTED, DRAFTED, STEPS, TOKENS, llama_metrics, vllm_metrics
from tests.wire.proxies import DYNAMO, LITELLM, joined, only_if, stripped, without_usage
from tests.wire.replies import events, every, json_reply, stream
from tests.wire.server import Pause, WireServer
from tests.wire.test_wire import Read
from tests.workload.engines.asking import metrics, served

TELLING = [pytest.param(w, id=w.name) for w in (OWN, VLLM, SGLANG, LLAMA_CPP)]
ROOT = Path(__file__).parents[2]
ENGINES_OF = "tests/workload/engines/"
LOAD = "tests/workload/load/"
HERE = "tests/wire/test_public_issues.py"

CASES = {
    "vllm#27485": (HERE, "test_chunks_are_no_tokens_and_no_steps"),
    "vllm#24049, vllm#23776": (
        ENGINES_OF + "test_interval.py", "test_eight_engines_behind_one_address_are_summed",
    ),
    "vllm#48915": (ENGINES_OF + "test_replies.py", "test_histogram_keys_as_text"),
    "llama.cpp#26389": (
        ENGINES_OF + "test_interval.py", "test_llama_cpp_counts_drafts_exactly",
    ),
    "aiperf#1191": (ENGINES_OF + "test_replies.py", "test_everything_is_told"),
    "sglang#33518": (ENGINES_OF + "test_replies.py", "test_names_of_all_versions"),
    "200, then an error": (
        "tests/wire/test_wire.py", "test_an_error_inside_a_stream_of_status_200",
    ),
    "a last chunk without choices": (HERE, "test_a_last_chunk_without_choices_is_read"),
    "SGLang's counters and cancelled streams": (
        HERE, "test_cancelled_streams_that_the_counters_forgot_are_stated",
    ),
    "vllm#9423 and others: the engine dies": (HERE, "test_an_engine_that_dies_ends_the_stream"),
    "vllm#52620: the engine dies under load": (
        LOAD + "test_killed.py",
        "test_a_server_killed_in_mid_load_leaves_partial_rows_and_a_clear_verdict",
    ),
    "sglang#9187, sglang#21723": (HERE, "test_a_stream_that_never_ends_is_only_alive"),
    "vllm#40875": (HERE, "test_a_fault_that_strikes_only_requests_with_tools"),
    "sglang#24795, vllm#56734": (HERE, "test_no_draft_accepted_is_zero_and_not_unknown"),
    "vllm#55605": (HERE, "test_a_broken_draft_shows_at_its_first_position"),
    "llama.cpp#23544": (HERE, "test_two_builds_can_be_told_apart"),
    "vllm#51771": (HERE, "test_prefix_hits_that_vanish_show_in_requests_and_counters"),
    "litellm#30245": (
        LOAD + "test_exchange.py", "test_cancelled_streams_are_closed_and_counted_apart",
    ),
    "litellm#36008, LLMKube#1852": (HERE, "test_without_the_usage_chunk_nothing_is_told"),
    "Dynamo": (HERE, "test_a_proxy_that_strips_what_is_not_openais"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_case_has_its_test(case):
    path, name = CASES[case]
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))

    assert name in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize("wire", TELLING)
@pytest.mark.parametrize("cut", [list, joined])
def test_chunks_are_no_tokens_and_no_steps(wire, cut):
    read = Read(stream(events(cut(wire.chunks()))))
    counts = ENGINES[wire.name].of_reply(read.payloads)

    assert read.text == "".join(TEXTS)
    assert (counts.steps, counts.drafted, counts.accepted) == (STEPS, DRAFTED, ACCEPTED)
    assert read.usage["completion_tokens"] == TOKENS


@pytest.mark.parametrize("cut", [list, joined])
def test_an_unknown_engine_gets_no_steps_from_its_chunks(cut):
    counts = ENGINES["generic"].of_reply(cut(DYNAMO.chunks()))

    assert (counts.steps, counts.accepted) == (None, None)


@pytest.mark.parametrize("wire", TELLING)
def test_a_last_chunk_without_choices_is_read(wire):
    read = Read(stream(every(11, events(wire.chunks()))))

    assert (read.payloads[-1]["choices"], read.usage["completion_tokens"]) == ([], TOKENS)


def test_cancelled_streams_that_the_counters_forgot_are_stated():
    asked = ENGINES["llama.cpp"]
    replies = [asked.of_reply(LLAMA_CPP.chunks())] * 10
    server = asked.between(metrics(llama_metrics(0)), metrics(llama_metrics(7), 1)).speculation
    found = differences(replies, server)

    assert "drafted: 120 in 10 requests, 84 on the server" in found[1]


@pytest.mark.parametrize("end", ["cut", "reset"])
def test_an_engine_that_dies_ends_the_stream(end):
    read = Read(stream(events(VLLM.chunks(), done=False)[:3], end=end))

    assert issubclass(read.broke, httpx.TransportError)
    assert not read.done


def test_a_stream_that_never_ends_is_only_alive():
    first, *_ = events(VLLM.chunks())
    script = [*stream([first, *[b": ping\n\n"] * 3])[:-1], Pause(60)]
    with WireServer({CHAT: script}) as server, pytest.raises(httpx.ReadTimeout):
        httpx.post(server.url + CHAT[1], json={}, timeout=0.5)


def test_a_fault_that_strikes_only_requests_with_tools():
    sound, broken = json_reply(VLLM.body()), json_reply(VLLM.body(choices=[]))
    with WireServer({CHAT: only_if(lambda r: "tools" in r.json, broken, sound)}) as server:
        url, asked = server.url + CHAT[1], ({}, {"tools": []})
        replies = [httpx.post(url, json=body, timeout=60).json() for body in asked]

    assert [len(reply["choices"]) for reply in replies] == [1, 0]


def test_no_draft_accepted_is_zero_and_not_unknown():
    none = {"num_spec_steps": 12, "num_draft_tokens": 36, "num_accepted_draft_tokens": 0,
            "acceptance_histogram": [12, 0, 0, 0]}  # fmt: skip
    counts = ENGINES["vllm"].of_reply([VLLM.body(metrics={"speculative_decoding": none})])

    assert (counts.accepted, counts.acceptance_rate, counts.mean_acceptance_length) == (0, 0, 1)
    assert counts.unknown == {}


def test_a_broken_draft_shows_at_its_first_position():
    noise = vllm_metrics(1)
    for position, reached in ((0, 1), (1, 0), (2, 0)):
        noise = _set(noise, f'position="{position}"}}', reached)
    noise = _set(noise, 'num_accepted_tokens_total{engine="0",model_name="m"}', 1)
    noise = _set(noise, 'num_drafts_total{engine="0",model_name="m"}', 50)
    noise = _set(noise, 'num_draft_tokens_total{engine="0",model_name="m"}', 150)
    found = ENGINES["vllm"].between(metrics(vllm_metrics(0)), metrics(noise, 1)).speculation

    assert found.histogram == (49, 1, 0, 0)
    assert sum(found.histogram[1:]) / found.steps == 0.02


def test_two_builds_can_be_told_apart():
    builds = ["b9999-abcdef0", "b9876-0fedcba"]
    found = [
        recognise(served(LLAMA_CPP, **{"/props": {**LLAMA_CPP.about["/props"], "build_info": b}}))
        for b in builds
    ]
    told = [each.adapter.of_reply(LLAMA_CPP.chunks(), each.version).source for each in found]

    assert [each.version for each in found] == builds
    assert all(build in source for build, source in zip(builds, told, strict=True))


def test_prefix_hits_that_vanish_show_in_requests_and_counters():
    gone = _set(vllm_metrics(2), 'prefix_cache_hits_total{engine="0",model_name="m"}', 2)
    found = ENGINES["vllm"].between(metrics(vllm_metrics(1)), metrics(gone, 1))

    assert (found.prefix_queried_tokens, found.prefix_hit_tokens, found.prefix_hit_rate) == (
        5,
        0,
        0,
    )
    assert VLLM.body()["usage"]["prompt_tokens_details"]["cached_tokens"] == 2


@pytest.mark.parametrize("wire", TELLING)
def test_without_the_usage_chunk_nothing_is_told(wire):
    read = Read(stream(events(without_usage(wire.chunks()))))
    counts = ENGINES[wire.name].of_reply(read.payloads)

    assert (read.usage, read.done) == (None, True)
    assert (counts.steps, counts.drafted, counts.accepted, counts.histogram) == (None,) * 4


@pytest.mark.parametrize("wire", TELLING)
def test_a_proxy_that_strips_what_is_not_openais(wire):
    read = Read(stream(events(stripped(wire.chunks()))))
    counts = ENGINES[wire.name].of_reply(read.payloads)

    assert read.usage["completion_tokens"] == TOKENS
    assert (counts.steps, counts.drafted, counts.accepted) == (None,) * 3
    assert all(counts.unknown.values())


@pytest.mark.parametrize("proxy", [DYNAMO, LITELLM])
def test_a_proxy_is_not_taken_for_an_engine(proxy):
    found = recognise(served(proxy))

    assert found.engine == "generic"
    assert found.doubts
    assert found.adapter.rule(found.facts).seen == "hidden"


@pytest.mark.parametrize("wire", [pytest.param(w, id=w.name) for w in ALL])
def test_an_error_of_a_proxy_is_an_error_of_the_reply(wire):
    failed = {"error": {"message": "upstream reset", "type": "None", "code": "502"}}
    read = Read(stream(events([*wire.chunks()[:2], failed])))

    assert error_of(read.payloads[-1]) == "None: upstream reset"
    assert json.dumps(read.payloads[-1]) == json.dumps(failed)


def _set(text: str, series: str, value: int) -> str:
    """The metrics with another value of the one series whose line has this."""
    lines = text.splitlines(keepends=True)
    [place] = [i for i, line in enumerate(lines) if series in line]
    lines[place] = f"{lines[place].rsplit(' ', 1)[0]} {value}\n"
    return "".join(lines)
