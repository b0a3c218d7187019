"""Whatever breaks in the router's own work, users get the baseline's answer."""

from __future__ import annotations

import contextlib
import errno

import pytest

from specdecode.rollout import ask, leg, recording, traffic
from specdecode.rollout.spool import Spool
from tests.rollout.routers import routing
from tests.rollout.scripts import replying, routes
from tests.wire.server import WireServer

MODES = ("shadow", "canary", "full")


class BrokenError(Exception):
    pass


def broken(*_args, **_more):
    raise BrokenError("a fault of the test")


@contextlib.contextmanager
def router_in(mode, folder, **settings):
    with (
        WireServer(routes(replying("from the baseline"))) as baseline,
        WireServer(routes(replying("from the candidate"))) as candidate,
        routing(baseline.url, candidate.url, folder, mode, **settings) as router,
    ):
        router.baseline, router.candidate = baseline, candidate
        yield router


def answered_by_the_baseline(router, times=1):
    for _ in range(times):
        for stream in (True, False):
            response = router.ask(stream=stream)
            assert response.status_code == 200
            assert "from the baseline" in response.text
            assert response.headers["x-specdecode-arm"] == "plain"


@pytest.mark.parametrize("mode", MODES)
class TestBeforeTheRequest:
    def test_the_assignment(self, tmp_path, monkeypatch, mode):
        with router_in(mode, tmp_path) as router:
            monkeypatch.setattr(ask.Asks, "judged", broken)
            answered_by_the_baseline(router)

            assert router.metric("bookkeeping_errors_total", where="assignment") == 2
            assert not router.candidate.requests

    def test_what_is_known_before_the_reply(self, tmp_path, monkeypatch, mode):
        with router_in(mode, tmp_path) as router:
            monkeypatch.setattr(ask, "asked_of", broken)
            answered_by_the_baseline(router)

            assert not router.candidate.requests

    def test_the_spool_at_the_beginning_of_a_row(self, tmp_path, monkeypatch, mode):
        with router_in(mode, tmp_path) as router:
            monkeypatch.setattr(Spool, "begin", broken)
            answered_by_the_baseline(router)

            assert mode == "shadow" or not router.candidate.requests

    def test_the_watch_of_the_reply(self, tmp_path, monkeypatch, mode):
        with router_in(mode, tmp_path) as router:
            monkeypatch.setattr(recording, "ReplyWatch", broken)
            answered_by_the_baseline(router)


@pytest.mark.parametrize("what", ["headers", "chunk", "ended"])
@pytest.mark.parametrize("mode", MODES)
def test_during_a_reply_its_bytes_pass_all_the_same(tmp_path, monkeypatch, mode, what):
    with router_in(mode, tmp_path) as router:
        monkeypatch.setattr(recording.ReplyWatch, what, broken)
        response = router.ask()

        words = "from the baseline" if mode == "shadow" else "from the candidate"
        assert (response.status_code, words in response.text) == (200, True)
        assert router.health["unrecorded"] == 1


def test_a_row_that_cannot_be_made_is_counted(tmp_path, monkeypatch):
    with router_in("canary", tmp_path) as router:
        monkeypatch.setattr(leg, "conclude", broken)
        response = router.ask()

        assert "from the candidate" in response.text
        assert router.health["unrecorded"] == 1
        assert router.metric("bookkeeping_errors_total", where="row") == 1


def test_what_cannot_become_a_row_is_not_in_flight_for_ever(tmp_path, monkeypatch):
    with router_in("canary", tmp_path) as router:
        monkeypatch.setattr(leg, "conclude", broken)
        router.ask()

        assert [line["kind"] for line in router.lines(settled=1)][-2:] == ["begin", "unjudged"]


def test_a_copy_whose_original_cannot_be_watched_is_no_row(tmp_path, monkeypatch):
    with router_in("shadow", tmp_path) as router:
        monkeypatch.setattr(recording.Recorder, "leg", lambda *_: None)
        router.ask()

        assert router.rows(settled=1) == []
        assert len(router.candidate.requests) == 1


def test_without_rows_the_candidate_gets_nothing_after_a_while(tmp_path, monkeypatch):
    with router_in("canary", tmp_path) as router:
        monkeypatch.setattr(leg, "conclude", broken)
        for _ in range(3):
            router.ask()
        seen = len(router.candidate.requests)
        answered_by_the_baseline(router, 3)

        assert len(router.candidate.requests) == seen == 3
        assert router.health["recording"] is False
        assert "several times in a row" in router.health["why"]


def test_the_mirror(tmp_path, monkeypatch):
    with router_in("shadow", tmp_path) as router:
        monkeypatch.setattr(traffic, "PairedCopy", broken)
        answered_by_the_baseline(router)

        assert router.metric("bookkeeping_errors_total", where="mirror") == 2


@pytest.mark.parametrize("mode", MODES)
def test_a_disk_that_is_full(tmp_path, monkeypatch, mode):
    with router_in(mode, tmp_path) as router:
        monkeypatch.setattr(Spool, "recording", property(lambda _: False))
        monkeypatch.setattr(Spool, "failure", property(lambda _: "OSError: No space left"))
        answered_by_the_baseline(router)

        assert not router.candidate.requests
        assert (router.health["recording"], router.health["why"]) == (
            False,
            "OSError: No space left",
        )


@pytest.mark.parametrize("mode", MODES)
def test_a_spool_that_cannot_be_opened(tmp_path, mode):
    (tmp_path / "spool").write_text("a file in its place")
    with router_in(mode, tmp_path) as router:
        answered_by_the_baseline(router)

        assert router.health["recording"] is False
        assert router.health["why"]
        assert not router.candidate.requests


def test_a_spool_of_somebody_else(tmp_path):
    with Spool(tmp_path / "spool"), router_in("canary", tmp_path) as router:
        answered_by_the_baseline(router)

        assert "another router records into this folder" in router.health["why"]


def test_a_state_that_cannot_be_written_is_the_old_one(tmp_path, monkeypatch):
    from specdecode.rollout import store

    with router_in("canary", tmp_path) as router:

        def full(*_args, **_more):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(store, "written_whole", full)
        before = router.state
        reply = router.put({"expected_version": 1, "mode": "off", "changed_by": "t", "reason": "r"})

        assert reply.status_code == 503
        assert "No space left" in reply.json()["error"]["message"]
        assert router.state == before


def test_a_damaged_state_is_mode_off(tmp_path):
    (tmp_path / "state.json").write_text("{")
    with router_in("off", tmp_path) as router:
        answered_by_the_baseline(router)

        assert (router.state["mode"], router.state["version"]) == ("off", 1)
