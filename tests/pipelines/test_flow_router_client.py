"""A router as flows see it: what it says, what it refuses, and what is unknown."""

from __future__ import annotations

import httpx
import pytest

from pipelines.flows.router_client import (
    RouterClient,
    RouterUnreachableError,
    StateMovedError,
    Target,
)
from specdecode.errors import ConfigError
from tests.pipelines.fake_router import FakeRouter
from tests.pipelines.releases import MANIFEST

SHADOW = Target("shadow", 0.5, MANIFEST)


def answering(status, **fields):
    """A client of something that always answers this."""
    transport = httpx.MockTransport(lambda _: httpx.Response(status, **fields))
    return RouterClient("http://router/", "token", transport=transport)


def test_reading_needs_no_token_and_changing_does():
    router = FakeRouter()
    client = router.client(token=None)

    found = client.read()
    assert (found.state.mode, found.state.version, found.recording) == ("off", 0, True)
    with pytest.raises(ConfigError, match="bearer token"):
        client.change(0, SHADOW, by="me", reason="a test")


def test_a_change_arrives_over_a_real_socket():
    router = FakeRouter()
    with router.served() as url, RouterClient(url, "let-me-in") as client:
        state = client.change(0, SHADOW, by="me", reason="a test")
        found = client.read().state

    assert state == found == router.state
    assert SHADOW.is_of(state)
    assert (state.version, state.changed_by, state.reason) == (1, "me", "a test")


def test_a_state_that_moved_on_is_told_and_left():
    router = FakeRouter()
    client = router.client()
    client.change(0, SHADOW, by="Ada", reason="a test")

    with pytest.raises(StateMovedError, match="version 1 by now, set by Ada") as caught:
        client.change(0, Target("off", 0.0, None), by="me", reason="a test")
    assert caught.value.current == router.state
    assert router.state.mode == "shadow"


def test_the_same_change_again_changes_nothing():
    router = FakeRouter()
    client = router.client()
    states = [client.change(0, SHADOW, by="me", reason="a test") for _ in range(2)]

    assert states[0] == states[1]
    assert len(router.history) == 1


def test_long_texts_are_cut_to_what_a_router_takes():
    state = FakeRouter().client().change(0, SHADOW, by="m" * 600, reason="r" * 600)

    assert (len(state.changed_by), len(state.reason)) == (500, 500)


@pytest.mark.parametrize(
    ("client", "error", "says"),
    [
        (answering(403, json={}), ConfigError, "token"),
        (answering(422, text="share: too large"), ConfigError, "share: too large"),
        (answering(500, json={}), RouterUnreachableError, "answered 500"),
        (answering(404, json={}), RouterUnreachableError, "is this a router"),
        (answering(200, text="hello"), RouterUnreachableError, "without JSON"),
        (answering(200, json=[]), RouterUnreachableError, "no object"),
        (answering(200, json={"state": {"mode": "?"}}), RouterUnreachableError, "cannot be read"),
        (answering(200, json={}), RouterUnreachableError, "cannot be read"),
        (answering(409, json={}), RouterUnreachableError, "cannot be read"),
    ],
    ids=["403", "422", "500", "404", "text", "list", "state", "empty", "conflict"],
)
def test_every_other_answer_is_an_error_that_says_what_it_was(client, error, says):
    with pytest.raises(error, match=says):
        client.change(0, SHADOW, by="me", reason="a test")


def test_no_answer_names_the_address_and_what_to_look_for():
    client = RouterClient("http://127.0.0.1:9", timeout_s=1)

    with pytest.raises(RouterUnreachableError, match=r"127\.0\.0\.1:9/rollout.*specdecode route"):
        client.read()


@pytest.mark.parametrize("health", [None, {}, {"recording": None}, {"recording": "true"}, []],
                         ids=["none", "empty", "null", "text", "list"])  # fmt: skip
def test_only_a_plain_yes_counts_as_recording(health):
    document = {"state": FakeRouter().state.model_dump(mode="json", by_alias=True)}
    client = answering(200, json=document | {"health": health})

    assert client.read().recording is False


@pytest.mark.parametrize(
    ("mirror", "mute", "sent"),
    [
        (None, (), None),
        ({}, (), None),
        ({"mute": [], "sent_over_expected": 0.98}, (), 0.98),
        ({"mute": ["/v1/completions"], "sent_over_expected": 0}, ("/v1/completions",), 0.0),
        ({"mute": "all", "sent_over_expected": "most"}, ("all",), 0.0),
        ({"sent_over_expected": True}, (), 0.0),
    ],
    ids=["none", "empty", "sound", "mute", "text", "truth"],
)
def test_how_the_mirror_is_comes_along_and_what_is_no_number_is_none_sent(mirror, mute, sent):
    document = {"state": FakeRouter().state.model_dump(mode="json", by_alias=True)}
    found = answering(200, json=document | {"health": {"recording": True, "mirror": mirror}}).read()

    assert (found.mute, found.sent_over_expected) == (mute, sent)
