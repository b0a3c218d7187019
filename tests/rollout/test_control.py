"""/rollout and its neighbours over HTTP."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.rollout.routers import MANIFEST, TOKEN, routing

DEAD = "http://127.0.0.1:9"
CANARY = {
    "expected_version": 0,
    "mode": "canary",
    "share": 0.05,
    "manifest_sha256": MANIFEST,
    "changed_by": "flow",
    "reason": "the shadow was GO",
}


@pytest.fixture
def router(tmp_path):
    with routing(DEAD, DEAD, tmp_path, verdict=tmp_path / "verdict.json") as running:
        yield running


class TestRead:
    def test_it_needs_no_token_and_holds_no_secret(self, router):
        reply = router.client.get("/rollout")

        assert reply.status_code == 200
        assert reply.json()["state"]["mode"] == "off"
        assert reply.json()["state"]["schema"] == "specdecode.rollout/1"
        assert {"recording", "why", "spool", "candidate", "mirror"} <= set(reply.json()["health"])
        assert TOKEN not in reply.text

    def test_health(self, router):
        for path in ("/health", "/health/live", "/health/ready"):
            assert router.client.get(path).json() == {"status": "ok"}

    def test_metrics(self, router):
        router.ask()
        text = router.client.get("/metrics").text

        assert 'specdecode:router_requests_total{arm="plain",outcome="failed"} 1.0' in text
        assert router.metric("recording") == 1
        assert router.metric("mode_off") == 1
        assert router.metric("spool_lost") == 0


class TestChange:
    def test_the_new_state_comes_back(self, router):
        reply = router.put(CANARY)

        assert reply.status_code == 200
        assert reply.json()["state"]["version"] == 1
        assert reply.json()["state"] == router.state
        assert json.loads((router.folder / "state.json").read_text()) == router.state

    @pytest.mark.parametrize(
        "header",
        [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x",
         f"Bearer {TOKEN[:-1]}"],
        ids=["none", "empty", "no-token", "wrong", "scheme", "longer", "shorter"],
    )  # fmt: skip
    def test_it_needs_the_token(self, router, header):
        headers = {} if header is None else {"Authorization": header}
        reply = router.client.put("/rollout", json=CANARY, headers=headers)

        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
        assert reply.json()["error"]["type"] == "authentication_error"
        assert router.state["version"] == 0

    def test_a_token_that_is_no_ascii_is_only_wrong(self, router):
        headers = {b"Authorization": "Bearer ü".encode()}

        assert router.client.put("/rollout", json=CANARY, headers=headers).status_code == 401

    def test_without_a_token_nobody_can(self, tmp_path):
        with routing(DEAD, DEAD, tmp_path / "other", token=None) as router:
            reply = router.put(CANARY)

        assert reply.status_code == 403
        assert "--token-file" in reply.json()["error"]["message"]

    def test_a_version_that_has_moved_on(self, router):
        router.put(CANARY)
        reply = router.put({**CANARY, "share": 0.25})

        assert reply.status_code == 409
        assert reply.json()["state"] == router.state
        assert "version 1, not 0" in reply.json()["error"]["message"]

    def test_the_same_request_after_a_lost_answer(self, router):
        first = router.put(CANARY)
        again = router.put(CANARY)

        assert (again.status_code, again.json()["state"]) == (200, first.json()["state"])
        assert len((router.folder / "history.jsonl").read_text().splitlines()) == 1

    def test_of_many_at_once_one_wins(self, router):
        with ThreadPoolExecutor(8) as pool:
            replies = list(
                pool.map(lambda i: router.put({**CANARY, "changed_by": f"flow {i}"}), range(8))
            )

        assert sorted(r.status_code for r in replies) == [200, *[409] * 7]
        assert router.state["version"] == 1

    @pytest.mark.parametrize(
        ("document", "said"),
        [
            ({**CANARY, "mode": "half"}, "mode"),
            ({**CANARY, "share": 1.5}, "share"),
            ({**CANARY, "share": "much"}, "share"),
            ({**CANARY, "manifest_sha256": "abc"}, "manifest_sha256"),
            ({**CANARY, "manifest_sha256": None}, "manifest_sha256"),
            ({**CANARY, "mode": "off"}, "mode off has share 0"),
            ({**CANARY, "mode": "full"}, "mode full has share 1"),
            ({**CANARY, "expected_version": -1}, "expected_version"),
            ({**CANARY, "expected_version": True}, "expected_version"),
            ({**CANARY, "expected_version": None}, "expected_version"),
            ({**CANARY, "reason": ""}, "reason"),
            ({**CANARY, "version": 7}, "unknown: version"),
            ({name: CANARY[name] for name in CANARY if name != "reason"}, "missing: reason"),
            ([CANARY], "no JSON object"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_is_no_state_is_refused(self, router, document, said):
        reply = router.put(document)

        assert reply.status_code == 422
        assert said in reply.json()["error"]["message"]
        assert router.state["version"] == 0

    @pytest.mark.parametrize("body", [b"", b"{", b"[" * 10_000, b"\xff"], ids=str)
    def test_what_is_no_json_is_refused(self, router, body):
        headers = {"Authorization": f"Bearer {TOKEN}"}

        assert router.client.put("/rollout", content=body, headers=headers).status_code == 422

    def test_a_state_of_megabytes_is_refused(self, router):
        assert router.put({**CANARY, "reason": "x" * 100_000}).status_code == 413

    def test_it_is_there_after_a_restart(self, tmp_path):
        with routing(DEAD, DEAD, tmp_path) as router:
            before = router.put(CANARY).json()["state"]
        with routing(DEAD, DEAD, tmp_path) as router:
            assert router.state == before

    def test_a_second_router_on_the_folder_is_refused(self, router):
        from specdecode.errors import UserError

        with (
            pytest.raises(UserError, match="belongs to a router that is running"),
            routing(DEAD, DEAD, router.folder),
        ):
            pass


class TestGate:
    def test_no_verdict(self, router):
        reply = router.client.get("/gate")

        assert reply.status_code == 409
        assert reply.json()["status"] == "INCONCLUSIVE"

    @pytest.mark.parametrize(
        ("status", "code"), [("GO", 200), ("NO_GO", 409), ("INVALID", 409)], ids=str
    )
    def test_the_verdict_as_it_is(self, router, status, code):
        router.put(CANARY)
        verdict = {"status": status, "manifest_sha256": MANIFEST, "stage": "canary", "n": 3}
        (router.folder / "verdict.json").write_text(json.dumps(verdict))
        reply = router.client.get("/gate")

        assert (reply.status_code, reply.json()) == (code, verdict)

    def test_a_go_on_another_manifest(self, router):
        router.put(CANARY)
        verdict = {"status": "GO", "manifest_sha256": "b" * 64}
        (router.folder / "verdict.json").write_text(json.dumps(verdict))

        assert router.client.get("/gate").status_code == 409

    @pytest.mark.parametrize("path", ["/gate", "/gate/rollback"])
    @pytest.mark.parametrize("method", ["GET", "POST"])
    @pytest.mark.parametrize("status", ["GO", "NO_GO"])
    def test_by_get_and_by_post_whatever_is_sent_along(self, router, status, method, path):
        router.put(CANARY)
        verdict = {"status": status, "manifest_sha256": MANIFEST}
        (router.folder / "verdict.json").write_text(json.dumps(verdict))
        expected = 200 if (status == "GO") == (path == "/gate") else 409

        for content in (b"", b'{"name": "engine", "phase": "Progressing"}', b"\xff"):
            reply = router.client.request(method, path, content=content)
            assert (reply.status_code, reply.json()) == (expected, verdict)

    @pytest.mark.parametrize("path", ["/gate", "/gate/rollback"])
    def test_a_hook_that_sends_megabytes_is_refused(self, router, path):
        assert router.client.post(path, content=b"x" * 1_000_000).status_code == 413

    def test_a_caller_may_say_which_manifest_it_means(self, router):
        router.put(CANARY)
        verdict = {"status": "GO", "manifest_sha256": MANIFEST}
        (router.folder / "verdict.json").write_text(json.dumps(verdict))

        for asked, code in ((MANIFEST, 200), ("b" * 64, 409)):
            reply = router.client.post("/gate", params={"manifest_sha256": asked})
            assert reply.status_code == code

    def test_after_the_way_back_harm_is_still_told(self, router):
        router.put(CANARY)
        back = {"mode": "off", "changed_by": "a person", "reason": "it hurts"}
        router.put({"expected_version": 1, **back})
        verdict = {"status": "NO_GO", "manifest_sha256": MANIFEST, "stage": "canary"}
        (router.folder / "verdict.json").write_text(json.dumps(verdict))

        assert (router.state["mode"], router.state["manifest_sha256"]) == ("off", MANIFEST)
        assert router.client.post("/gate/rollback").status_code == 200


def test_a_change_whose_author_leaves_is_finished(tmp_path, monkeypatch):
    import socket
    import threading

    from specdecode.rollout import store
    from tests.rollout.routers import eventually

    began, go_on = threading.Event(), threading.Event()
    written = store.StateStore.change

    def slow(self, document, expected):
        began.set()
        assert go_on.wait(60)
        return written(self, document, expected)

    with routing(DEAD, DEAD, tmp_path) as router:
        monkeypatch.setattr(store.StateStore, "change", slow)
        host, port = router.url.removeprefix("http://").split(":")
        body = json.dumps(CANARY)
        head = f"PUT /rollout HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
        with socket.create_connection((host, int(port)), timeout=60) as author:
            author.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n{body}".encode())
            assert began.wait(60)
        assert router.state["version"] == 0  # and by now the router knows that the author left
        go_on.set()
        eventually(lambda: router.state["version"] == 1)

        assert router.put({**CANARY, "share": 0.25}).status_code == 409
