"""What of a user's request a copy has, and which requests are not copied."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.rollout.copies import (
    NEVER_PASSED,
    ROUTES,
    SHADOW,
    Copy,
    CopyRules,
    parsed_body,
    why_not_copied,
)

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASKED = {"messages": [{"role": "user", "content": "Bonjour"}], "temperature": 0.7}
USERS = {
    "Authorization": "Bearer of-the-user",
    "Cookie": "id=1",
    "X-Api-Key": "secret",
    "Proxy-Authorization": "Basic eA==",
    "X-Forwarded-For": "10.0.0.1",
    "X-Specdecode-User": "ada",
    "X-Specdecode-Conversation": "c7",
    "X-Request-Id": "the-user's",
    "X-Specdecode-Category": "code",
    "User-Agent": "app/1",
}


def copy_of(body, *, path=CHAT, headers=USERS, streaming=False):
    return Copy(path, json.dumps(body).encode(), headers, {}, streaming)


def sent(body, *, rules=None, **options):
    ready = (rules or CopyRules(salt=b"salt")).ready(copy_of(body, **options))
    return json.loads(ready.body), dict(ready.headers)


def test_a_copy_carries_labels_and_nothing_that_names_the_user():
    _, headers = sent(ASKED)

    number = headers.pop("x-request-id")
    assert headers == {
        "x-specdecode-category": "code",
        "content-type": "application/json",
        "accept": "application/json",
        "accept-encoding": "identity",
        SHADOW: "1",
    }
    assert number.startswith("shadow-")
    assert sent(ASKED)[1]["x-request-id"] != number


@given(
    st.dictionaries(
        st.sampled_from([*sorted(NEVER_PASSED), "x-forwarded-host", "proxy-x", "sec-fetch-site"])
        .flatmap(lambda name: st.sampled_from([name, name.upper(), name.title()])),
        st.just("of the user"),
    )
)  # fmt: skip
def test_no_header_of_the_user_that_is_not_listed_gets_through(headers):
    assert "of the user" not in sent(ASKED, headers=headers)[1].values()


def test_the_candidate_s_own_key_is_sent_in_place_of_the_user_s():
    _, headers = sent(ASKED, rules=CopyRules(key="of the candidate"))

    assert headers["authorization"] == "Bearer of the candidate"


@pytest.mark.parametrize("name", ["authorization", "cookie", "x-forwarded-for", "Accept"])
def test_no_setting_lets_credentials_through(name):
    with pytest.raises(ConfigError, match=f"never carry: {name}; give the candidate a key"):
        CopyRules(passed=frozenset({name}))


def test_what_is_decoded_is_not_changed():
    body = ASKED | {"max_tokens": 7, "seed": 3, "top_k": 20, "logit_bias": {"5": -1.5}, "n": 1}

    assert sent(body)[0] == body


def test_users_become_pseudonyms_that_only_this_router_could_have_made():
    body = ASKED | {"user": "ada", "cache_salt": "s", "prompt_cache_key": "ada"}

    one, again = sent(body)[0], sent(body)[0]
    other = sent(body, rules=CopyRules(salt=b"another"))[0]

    assert one == again
    for name in ("user", "cache_salt", "prompt_cache_key"):
        assert one[name] not in ("ada", "s", other[name])
    assert one["user"] != one["prompt_cache_key"]
    assert sent(body | {"user": "bob"})[0]["user"] != one["user"]


def test_numbers_and_priorities_of_the_user_s_request_stay_behind():
    body, _ = sent(
        ASKED | {"request_id": "r1", "rid": "r1", "priority": -5, "metadata": {"a": "b"}}
    )

    assert body == ASKED


def test_a_priority_is_sent_only_where_it_is_set():
    assert sent(ASKED | {"priority": -5}, rules=CopyRules(priority=9))[0]["priority"] == 9


def test_copies_can_be_kept_out_of_a_shared_cache_of_prefixes():
    rules = CopyRules(salt=b"salt", add_cache_salt=True)

    assert sent(ASKED, rules=rules)[0]["cache_salt"] == sent(ASKED, rules=rules)[0]["cache_salt"]
    assert "cache_salt" not in sent(ASKED)[0]


def test_a_stream_is_asked_for_its_counts_and_keeps_its_other_options():
    body = ASKED | {"stream": True, "stream_options": {"continuous_usage_stats": True}}

    found, headers = sent(body, streaming=True)

    assert found["stream_options"] == {"continuous_usage_stats": True, "include_usage": True}
    assert headers["accept"] == "text/event-stream"
    assert sent(body, streaming=True, rules=CopyRules(ask_usage=False))[0] == body


def test_the_candidate_s_name_of_the_model_is_used():
    assert sent(ASKED | {"model": "a"}, rules=CopyRules(model="b"))[0]["model"] == "b"


def test_half_a_character_stays_what_it_was():
    copy = Copy(CHAT, b'{"prompt":"\\ud83d \\u00e9"}', {}, {}, streaming=False)

    assert json.loads(CopyRules().ready(copy).body) == {"prompt": "\ud83d é"}


def test_what_is_private_is_not_in_a_representation():
    shown = repr(copy_of(ASKED)) + repr(CopyRules(salt=b"geheim", key="of the candidate"))

    for secret in ("Bonjour", "of-the-user", "geheim", "of the candidate"):
        assert secret not in shown


@pytest.mark.parametrize("path", ROUTES)
def test_plain_requests_are_copied(path):
    assert why_not_copied(path, ASKED | {"store": False, "tools": None}) is None


@pytest.mark.parametrize(
    "path", ["/v1/embeddings", "/v1/responses", "/v1/files", "/v1/completions/"]
)
def test_other_routes_are_not_copied(path):
    assert why_not_copied(path, ASKED) == "route"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"store": True}, "stored"),
        ({"background": True}, "stored"),
        ({"session_params": {"id": "s"}}, "stored"),
        ({"web_search_options": {}}, "server_tool"),
        ({"web_search_options": {"user_location": None}}, "server_tool"),
        ({"tools": [{"type": "mcp", "server_url": "https://example.org"}]}, "server_tool"),
        ({"tools": [{"type": "function"}, {"type": "code_interpreter"}]}, "server_tool"),
        ({"plugins": [{"id": "web"}]}, "server_tool"),
        ({"webhook_url": "https://example.org"}, "calls_back"),
        ({"api_key": "of the user"}, "credentials"),
    ],
)
def test_requests_that_do_more_than_decode_are_not_copied(fields, why):
    assert why_not_copied(CHAT, ASKED | fields) == why


def test_tools_that_the_client_runs_are_copied():
    tools = [{"type": "function", "function": {"name": "f"}}, {"type": "custom"}, {}]

    assert why_not_copied(CHAT, ASKED | {"tools": tools}) is None


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": "text", "text": "https://example.org"}, None),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}, None),
        ({"type": "image_url", "image_url": {"url": "https://a.example/?sig=1"}}, "remote_content"),
        ({"type": "image_url", "image_url": "http://example.org/a.png"}, "remote_content"),
        ({"type": "file", "file": {"file_id": "f1"}}, "remote_content"),
    ],
    ids=["text", "data", "address", "bare-address", "file"],
)  # fmt: skip
def test_nothing_is_fetched_twice(part, why):
    body = {"messages": [{"role": "user", "content": [part]}]}

    assert why_not_copied(CHAT, body) == why


WORDS = st.sampled_from(["", "type", "url", "content", "image_url", "data:", "mcp", "é"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["messages", "tools", "store", "stream_options", "user", "plugins"]),
        ANY_JSON,
    )
)
def test_no_shape_of_a_body_confuses_it(body):
    why_not_copied(CHAT, body)
    sent(body, streaming=True)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000], ids=range(5))
def test_a_body_that_is_no_object_is_told_from_one(body):
    with pytest.raises(ValueError):
        parsed_body(Copy(CHAT, body, {}, {}, streaming=False))
