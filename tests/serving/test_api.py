"""What clients get: OpenAI's shapes, the engine's tokens, and vLLM's counts."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from specdecode import SamplingParams
from specdecode.serving.settings import ServerSettings
from tests.serving.servers import NAME, serving, tiny_engine

PROMPT = "the cat sat on the mat"
ASK = {"model": NAME, "prompt": PROMPT, "max_tokens": 12, "seed": 7, "ignore_eos": True}
CHAT = {
    "model": NAME,
    "messages": [{"role": "user", "content": PROMPT}],
    "max_tokens": 12,
    "seed": 7,
    "ignore_eos": True,
}


def post(server, path, **body):
    return httpx.post(server.url + path, json=body, timeout=60)


def events(server, path, **body):
    """The documents of a stream; it must end as OpenAI's do."""
    text = post(server, path, stream=True, **body)
    assert text.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in text.text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def expected(server, prompt=PROMPT, **params):
    values = {"max_tokens": 12, "seed": 7, "ignore_eos": True, **params}
    engine = tiny_engine_of(server)
    return engine.generate([prompt], SamplingParams(**values))


def tiny_engine_of(server):
    """An engine of its own over the same target: the server's belongs to its scheduler."""
    from specdecode import Engine

    return Engine.load(server.engine.target, "self-int8", num_speculative_tokens=3)


def test_a_completion_is_the_engines(server):
    answer = post(server, "/v1/completions", return_token_ids=True, **ASK).json()

    (result,) = expected(server)
    (choice,) = answer["choices"]
    assert choice["token_ids"] == list(result.token_ids)
    assert choice["text"] == result.text
    assert choice["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 6, "completion_tokens": 12, "total_tokens": 18}
    counts = answer["metrics"]["speculative_decoding"]
    assert counts["num_spec_steps"] + answer["metrics"]["acceptance_guard"]["plain_steps"] == (
        result.acceptance.steps
    )
    assert counts["num_draft_tokens"] == result.acceptance.drafted
    assert counts["num_accepted_draft_tokens"] == result.acceptance.accepted
    assert sum(counts["acceptance_histogram"]) == counts["num_spec_steps"]
    assert len(counts["acceptance_histogram"]) == 4


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_stream_adds_up_to_the_whole_answer(server, path):
    ask = CHAT if "chat" in path else ASK
    whole = post(server, path, **ask).json()["choices"][0]

    pieces = events(server, path, stream_options={"include_usage": True}, **ask)

    *parts, last = pieces
    if "chat" in path:
        assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        text = "".join(p["choices"][0]["delta"].get("content", "") for p in parts)
        assert text == whole["message"]["content"]
    else:
        assert "".join(p["choices"][0]["text"] for p in parts) == whole["text"]
    assert [p["choices"][0]["finish_reason"] for p in parts][-1] == "length"
    assert all(p["choices"][0]["finish_reason"] is None for p in parts[:-1])
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 12
    assert last["metrics"]["speculative_decoding"]["num_spec_tokens"] == 3


def test_without_include_usage_no_event_lacks_a_choice(server):
    assert all(e["choices"] for e in events(server, "/v1/completions", **ASK))


def test_a_stop_string_is_no_part_of_the_text_however_it_is_cut(server):
    (result,) = expected(server)
    stop = " ".join(result.text.split()[3:5])

    whole = post(server, "/v1/completions", **{**ASK, "stop": stop}).json()["choices"][0]
    pieces = events(server, "/v1/completions", **{**ASK, "stop": [stop, "never"]})

    assert whole["finish_reason"] == "stop"
    assert stop not in whole["text"]
    assert result.text.startswith(whole["text"])
    assert "".join(p["choices"][0]["text"] for p in pieces) == whole["text"]


def test_n_replies_are_those_of_the_engine(server):
    answer = post(server, "/v1/completions", return_token_ids=True, **{**ASK, "n": 3}).json()

    results = expected(server, n=3)
    assert [c["index"] for c in answer["choices"]] == [0, 1, 2]
    assert [c["token_ids"] for c in answer["choices"]] == [list(r.token_ids) for r in results]
    assert answer["usage"]["prompt_tokens"] == 6
    assert answer["metrics"] is None


def test_streamed_replies_keep_their_places(server):
    whole = post(server, "/v1/completions", **{**ASK, "n": 3}).json()

    texts = {0: "", 1: "", 2: ""}
    for event in events(server, "/v1/completions", **{**ASK, "n": 3}):
        (choice,) = event["choices"]
        texts[choice["index"]] += choice["text"]

    assert texts == {c["index"]: c["text"] for c in whole["choices"]}


def test_logprobs_of_completions_and_chat(server):
    plain = post(server, "/v1/completions", **ASK, logprobs=2).json()["choices"][0]["logprobs"]
    ask = {**CHAT, "logprobs": True, "top_logprobs": 2}
    chat = post(server, "/v1/chat/completions", **ask).json()["choices"][0]["logprobs"]
    pieces = events(server, "/v1/completions", **ASK, logprobs=2)

    (result,) = expected(server, logprobs=2)
    values = [entry.logprob for entry in result.logprobs]
    assert plain["token_logprobs"] == pytest.approx(values, abs=1e-4)
    assert all(len(top) == 2 for top in plain["top_logprobs"])
    assert len(chat["content"]) == 12
    assert all(len(entry["top_logprobs"]) == 2 for entry in chat["content"])
    assert bytes(chat["content"][0]["bytes"]).decode() == chat["content"][0]["token"]
    streamed = [v for p in pieces for v in p["choices"][0]["logprobs"]["token_logprobs"]]
    assert streamed == pytest.approx(values, abs=1e-4)


def test_text_offsets_of_a_stream_are_those_of_the_whole(server):
    ask = {**ASK, "logprobs": 1, "stop": ["never"]}
    whole = post(server, "/v1/completions", **ask).json()["choices"][0]["logprobs"]

    pieces = [e["choices"][0]["logprobs"] for e in events(server, "/v1/completions", **ask)]

    assert [place for piece in pieces for place in piece["text_offset"]] == whole["text_offset"]
    assert [text for piece in pieces for text in piece["tokens"]] == whole["tokens"]


def test_a_stop_string_leaves_tokens_logprobs_and_usage_in_step(server):
    """Whatever the drafts behind it were: the token that completes it is the last one of each."""
    (result,) = expected(server)
    ask = {**ASK, "stop": result.text.split()[5], "logprobs": 1, "return_token_ids": True}

    whole = post(server, "/v1/completions", **ask).json()
    pieces = [
        e["choices"][0]
        for e in events(server, "/v1/completions", stream_options={"include_usage": True}, **ask)
        if e["choices"]
    ]

    (choice,) = whole["choices"]
    count = whole["usage"]["completion_tokens"]
    assert choice["token_ids"] == list(result.token_ids[:count])
    assert len(choice["logprobs"]["token_logprobs"]) == count <= 6
    assert [token for p in pieces for token in p["token_ids"]] == choice["token_ids"]
    told = [value for p in pieces for value in p["logprobs"]["token_logprobs"]]
    assert told == pytest.approx(choice["logprobs"]["token_logprobs"], abs=1e-4)


def test_sampling_parameters_reach_the_engine(server):
    given = {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 5,
        "min_p": 0.02,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "repetition_penalty": 1.2,
    }
    ask = {**ASK, **given, "logit_bias": {"4": 3.0}, "return_token_ids": True}

    answer = post(server, "/v1/completions", **ask).json()

    (result,) = expected(server, logit_bias={4: 3.0}, **given)
    assert answer["choices"][0]["token_ids"] == list(result.token_ids)


def test_many_clients_at_once_get_what_each_would_get_alone(server):
    asks = [{**ASK, "seed": i, "max_tokens": 5 + 3 * i, "temperature": 0.2 * i} for i in range(10)]
    with ThreadPoolExecutor(10) as pool:
        answers = list(
            pool.map(lambda a: post(server, "/v1/completions", return_token_ids=True, **a), asks)
        )

    for ask, answer in zip(asks, answers, strict=True):
        names = ("seed", "max_tokens", "temperature")
        (result,) = expected(server, **{name: ask[name] for name in names})
        assert answer.json()["choices"][0]["token_ids"] == list(result.token_ids)


def test_prompts_as_token_ids_and_several_at_once(server):
    ids = server.engine.target.tokenizer(PROMPT)["input_ids"]

    by_ids = post(server, "/v1/completions", **{**ASK, "prompt": ids}).json()
    both = post(server, "/v1/completions", **{**ASK, "prompt": [PROMPT, "a dog ran"]}).json()

    text = post(server, "/v1/completions", **ASK).json()["choices"][0]["text"]
    assert by_ids["choices"][0]["text"] == both["choices"][0]["text"] == text
    assert both["usage"]["prompt_tokens"] == 9


def test_models_version_health_and_what_is_in_force(server):
    def get(path):
        return httpx.get(server.url + path, timeout=60).json()

    (model,) = get("/v1/models")["data"]
    assert (model["id"], model["owned_by"], model["max_model_len"]) == (NAME, "specdecode", 256)
    assert get("/version")["engine"] == "specdecode"
    assert get("/health") == get("/health/live") == {"status": "ok"}
    info = get("/server_info")
    assert info["deadline_s"] == ServerSettings(NAME).deadline_s
    assert info["target"]["dtype"] == "float32"
    assert set(info["target"]["fingerprint"]) == {"weights", "tokenizer", "chat_template", "config"}
    assert "api_key" not in info
    assert (info["verification"], info["num_speculative_tokens"]) == ("block", 3)


def test_metrics_count_what_was_answered(engine_folder):
    with serving(tiny_engine(engine_folder), slots=2, guard=False) as fresh:
        header = {"X-Specdecode-Category": "coding"}
        asked = [{**ASK, "seed": seed} for seed in range(3)]
        answers = [
            httpx.post(fresh.url + "/v1/completions", json=ask, headers=header, timeout=60).json()
            for ask in asked
        ]
        text = httpx.get(fresh.url + "/metrics", timeout=60).text

    def value(name, **labels):
        labels = {"engine": "0", "model_name": NAME, **labels}
        inside = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()))
        (found,) = [
            line.split()[-1]
            for line in text.splitlines()
            if line.startswith(name + "{")
            and ",".join(sorted(line[line.index("{") + 1 : line.index("}")].split(","))) == inside
        ]
        return float(found)

    counts = [a["metrics"]["speculative_decoding"] for a in answers]
    total = {name: sum(c[name] for c in counts) for name in counts[0] if name.startswith("num_")}
    assert value("vllm:prompt_tokens_total") == 18
    assert value("vllm:generation_tokens_total") == 36
    assert value("vllm:spec_decode_num_drafts_total") == total["num_spec_steps"]
    assert value("vllm:spec_decode_num_draft_tokens_total") == total["num_draft_tokens"]
    accepted = total["num_accepted_draft_tokens"]
    assert value("vllm:spec_decode_num_accepted_tokens_total") == accepted
    per_position = [
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("vllm:spec_decode_num_accepted_tokens_per_pos_total{")
    ]
    assert math.fsum(per_position) == accepted
    assert value("vllm:request_success_total", finished_reason="length") == 3
    assert value("specdecode:acceptance_length_count", category="coding") == 3
    assert value("vllm:num_requests_running") == value("vllm:num_requests_waiting") == 0
