"""What is refused, and that the answer says so in OpenAI's shape."""

from __future__ import annotations

import json
import logging

import httpx
import pytest

from specdecode.errors import ConfigError
from specdecode.serving.errors import ApiError
from specdecode.serving.metrics import MOST_CATEGORIES, ServerMetrics
from specdecode.serving.run import make_server, make_service
from specdecode.serving.settings import ServerSettings
from tests.serving.servers import NAME, serving, tiny_engine
from tests.serving.test_api import ASK, CHAT, post


@pytest.fixture(scope="module")
def strict(engine_folder):
    limits = {"max_body_bytes": 3000, "max_prompt_tokens": 20, "max_tokens": 30, "max_replies": 4}
    with serving(tiny_engine(engine_folder), slots=2, **limits) as running:
        yield running


def told(response, status, param=None):
    error = response.json()["error"]
    assert response.status_code == status
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == status
    assert error["param"] == param
    return error["message"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": 5}, "n"),
        ({"max_tokens": 31}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"logit_bias": {"the": 1}}, "logit_bias"),
        ({"logit_bias": {"3": 1e30}}, "logit_bias"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"repetition_penalty": 1e-30}, "repetition_penalty"),
        ({"seed": -1}, None),
        ({"logit_bias": {"999": 1}}, None),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, None),
        ({"prompt": "the " * 21}, "prompt"),
        ({"prompt": [999]}, None),
        ({"prompt": {"text": "the"}}, "prompt"),
        ({"prompt": ["the", 3]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [0.5] * 700}, "prompt"),
        ({"prompt": [[2, 3], ["the"]]}, "prompt"),
        ({"prompt": [[]]}, None),
        ({"stop": ["x"] * 33}, "stop"),
        ({"stop": [1] * 33}, "stop"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"echo": True}, "echo"),
        ({"best_of": 3}, "best_of"),
        ({"stop": ""}, None),
        ({"temperature": 0, "n": 2}, None),
    ],
)
def test_wrong_fields_are_named(strict, change, param):
    told(post(strict, "/v1/completions", **{**ASK, **change}), 400, param)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user"}],
        [{"content": "the"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    ],
)
def test_wrong_messages_are_refused(strict, messages):
    told(post(strict, "/v1/chat/completions", **{**CHAT, "messages": messages}), 400, "messages")


def test_null_is_not_given_and_unknown_fields_are_passed_over(strict):
    answer = post(strict, "/v1/completions", **ASK, top_p=None, stop=None, user="me", metadata={})

    assert answer.status_code == 200


def test_content_in_parts_is_joined(strict):
    parts = [{"type": "text", "text": "the cat "}, {"type": "text", "text": "sat on the mat"}]
    whole = post(strict, "/v1/chat/completions", **CHAT).json()

    split = post(
        strict, "/v1/chat/completions", **{**CHAT, "messages": [{"role": "user", "content": parts}]}
    ).json()

    assert split["choices"][0]["message"] == whole["choices"][0]["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 2900, json.dumps(ASK).encode()[:-1]]
)
def test_a_body_that_is_no_json_object(strict, body):
    told(httpx.post(strict.url + "/v1/completions", content=body, timeout=60), 400)


def test_an_oversized_body_is_not_read(strict):
    body = json.dumps({**ASK, "prompt": "the " * 1000}).encode()

    declared = httpx.post(strict.url + "/v1/completions", content=body, timeout=60)
    undeclared = httpx.post(strict.url + "/v1/completions", content=iter([body]), timeout=60)

    assert "3000 bytes" in told(declared, 413)
    assert "3000 bytes" in told(undeclared, 413)


def test_another_model_and_another_route(strict):
    assert NAME in told(post(strict, "/v1/completions", **{**ASK, "model": "x"}), 404, "model")
    assert "/v1/completions" in told(httpx.get(strict.url + "/v1/nothing", timeout=60), 404)
    told(httpx.get(strict.url + "/v1/completions", timeout=60), 405)


def test_an_api_key_guards_what_costs_and_what_tells(engine_folder):
    with serving(tiny_engine(engine_folder), slots=1, api_key="säcret") as locked:

        def get(path, key=None):
            headers = {} if key is None else {"Authorization": f"Bearer {key}".encode()}
            return httpx.get(locked.url + path, headers=headers, timeout=60).status_code

        told(post(locked, "/v1/completions", **ASK), 401)
        assert get("/v1/models") == get("/v1/models", "wrong") == get("/server_info") == 401
        assert get("/health") == get("/metrics") == 200
        assert get("/v1/models", "säcret") == 200


@pytest.fixture(scope="module")
def secret(engine_folder):
    with serving(tiny_engine(engine_folder), slots=1, api_key="secret") as running:
        yield running


@pytest.mark.parametrize(
    ("header", "status"),
    [("Bearer secret", 200), ("bearer  secret", 200), ("secret", 401), ("Basic secret", 401)],
)
def test_a_key_comes_as_a_bearer_token(secret, header, status):
    answer = httpx.get(secret.url + "/v1/models", headers={"Authorization": header}, timeout=60)

    assert answer.status_code == status


def test_what_no_answer_can_carry_is_not_quoted(strict):
    body = json.dumps({**ASK, "model": "\ud800"})

    assert "'?'" in json.dumps(ApiError(404, "no model '\ud800'").body(), ensure_ascii=False)
    told(httpx.post(strict.url + "/v1/completions", content=body, timeout=60), 400)


@pytest.mark.parametrize(
    ("host", "inside"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False)],  # noqa: S104 - nothing listens
)
def test_an_open_door_is_warned_about(engine_folder, caplog, host, inside):
    settings = ServerSettings(NAME, host=host)
    service = make_service(tiny_engine(engine_folder, None), settings)

    with caplog.at_level(logging.WARNING, "specdecode.serving"):
        make_server(service, settings, lambda _host, _port: None)

    assert settings.is_loopback is inside
    assert ("without an API key" in caplog.text) is not inside


@pytest.mark.parametrize(
    "wrong", [{"slots": 0}, {"queue": 0}, {"deadline_s": -1.0}, {"api_key": " "}, {"port": -1}]
)
def test_settings_out_of_range(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong)).replace("api_key", "API key")):
        ServerSettings(NAME, **wrong)


def test_a_rule_that_cannot_serve_is_refused_at_the_start(engine_folder):
    with pytest.raises(ConfigError, match="greedy-block"):
        make_service(tiny_engine(engine_folder, rule="greedy-block"), ServerSettings(NAME))


def test_clients_cannot_make_up_ever_more_categories():
    metrics = ServerMetrics(NAME, 3, slots=4, context=256)

    names = {metrics.category(f"kind-{i}") for i in range(500)}

    assert len(names) == MOST_CATEGORIES + 1
    assert metrics.category("KIND-3 ") == "kind-3"
    assert metrics.category('a"b\n') == "other"
    assert metrics.category(None) == "none"
