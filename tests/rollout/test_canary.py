"""A candidate that fails costs users nothing, and the failure is on record."""

from __future__ import annotations

import contextlib
import threading

import httpx
import pytest

from tests.rollout.routers import routing
from tests.rollout.scripts import broken_off, gated, held, reply, replying, routes
from tests.wire.engines import VLLM
from tests.wire.replies import error_reply, events, json_reply, stream
from tests.wire.server import Reset, WireServer

DEAD = "http://127.0.0.1:9"
GOOD = replying("from the baseline")
OOM = {"error": {"message": "out of memory", "type": "InternalServerError", "code": 500}}
BEFORE_THE_FIRST_BYTE = {
    "not-there": (None, "refused"),
    "broken-off": ([Reset()], "disconnected"),
    "500": (error_reply(500, "x"), "http-5xx"),
    "503": (error_reply(503, "x"), "http-5xx"),
    "429": (error_reply(429, "x"), "http-429"),
    "401": (error_reply(401, "x"), "http-4xx"),
    "404": (error_reply(404, "x"), "http-4xx"),
    "redirect": (json_reply({}, 307, {"Location": "/elsewhere"}), "http-other"),
    "no-http": ([b"nonsense\r\n\r\n"], "malformed"),
    "no-event": (stream([]), "empty"),
    "error-first": (stream(events([OOM])), "stream-error"),
}


@contextlib.contextmanager
def canary(script, folder, mode="canary", **settings):
    with contextlib.ExitStack() as stack:
        baseline = stack.enter_context(WireServer(routes(GOOD)))
        url, candidate = DEAD, None
        if script is not None:
            candidate = stack.enter_context(WireServer(routes(script)))
            url = candidate.url
        router = stack.enter_context(routing(baseline.url, url, folder, mode, **settings))
        router.baseline, router.candidate = baseline, candidate
        yield router


class TestBeforeTheFirstByte:
    @pytest.mark.parametrize("mode", ["canary", "full"])
    @pytest.mark.parametrize("case", BEFORE_THE_FIRST_BYTE)
    def test_the_baseline_answers_and_the_failure_is_a_row(self, tmp_path, case, mode):
        script, word = BEFORE_THE_FIRST_BYTE[case]
        with canary(script, tmp_path, mode) as router:
            response = router.ask()
            [row] = router.rows(settled=1)

        assert response.status_code == 200
        assert "from the baseline" in response.text
        assert response.headers["x-specdecode-arm"] == "plain"
        assert response.headers["x-specdecode-retried"] == "candidate"
        assert (row["arm"], row["error"].partition(":")[0]) == ("block", word)
        assert row["stage"] == ("watch" if mode == "full" else "canary")
        assert "output_tokens" not in row

    @pytest.mark.parametrize("fault", ["error", "cut", "no-output"])
    def test_so_it_is_with_replies_that_do_not_stream(self, tmp_path, fault):
        head, body = json_reply(VLLM.body())
        script = {
            "error": json_reply(OOM),
            "cut": [head, body[:-20]],
            "no-output": error_reply(501, "x"),
        }[fault]
        with canary(script, tmp_path) as router:
            response = router.ask(stream=False)
            [row] = router.rows(settled=1)

        assert response.json()["choices"][0]["message"]["content"] == "from the baseline"
        assert row["error"]

    def test_a_stream_that_does_not_begin_in_time(self, tmp_path):
        gate = threading.Event()
        script = gated(events(VLLM.chunks()), gate, before=0)
        with canary(script, tmp_path, first_byte_s=0.3) as router:
            response = router.ask()
            [row] = router.rows(settled=1)
            gate.set()

        assert "from the baseline" in response.text
        assert row["error"].startswith("idle-timeout: no first byte within 0.3 s")

    def test_the_baseline_is_asked_once_and_has_no_row_of_its_own(self, tmp_path):
        with canary(error_reply(500, "x"), tmp_path) as router:
            router.ask()
            rows = router.rows(settled=1)

            assert [row["arm"] for row in rows] == ["block"]
            assert len(router.baseline.requests) == len(router.candidate.requests) == 1
            assert router.metric("retried_total") == 1

    def test_where_both_fail_the_client_hears_of_the_baseline(self, tmp_path):
        with (
            WireServer(routes(error_reply(500, "of the candidate"))) as candidate,
            routing(DEAD, candidate.url, tmp_path, "canary") as router,
        ):
            response = router.ask()
            [row] = router.rows(settled=1)

        assert response.status_code == 502
        assert row["error"].startswith("http-5xx")


class TestAfterTheFirstByte:
    def test_nothing_is_tried_again(self, tmp_path):
        pieces, seen = events(VLLM.chunks(), done=False)[:3], threading.Event()
        with canary(broken_off(pieces, seen, "cut"), tmp_path) as router:
            body = {"messages": [], "stream": True}
            with (
                pytest.raises(httpx.RemoteProtocolError),
                router.client.stream("POST", "/v1/chat/completions", json=body) as response,
            ):
                for _ in response.iter_raw():
                    seen.set()
            [row] = router.rows(settled=1)

            assert not router.baseline.requests
        assert row["error"].startswith("disconnected")

    def test_an_error_in_mid_stream_passes_and_is_a_row(self, tmp_path):
        with canary(stream(events([*VLLM.chunks()[:3], OOM])), tmp_path) as router:
            response = router.ask()
            [row] = router.rows(settled=1)

        assert "out of memory" in response.text
        assert row["error"].startswith("stream-error")

    def test_a_stream_without_its_end_is_a_row_with_an_error(self, tmp_path):
        with canary(stream(events(VLLM.chunks(), done=False)), tmp_path) as router:
            assert router.ask().status_code == 200
            [row] = router.rows(settled=1)

        assert row["error"].startswith("no-done")


class TestRefusals:
    def test_what_both_refuse_is_nobodys_failure(self, tmp_path):
        with canary(error_reply(404, "no such model"), tmp_path) as router:
            router.baseline.routes["POST", "/v1/chat/completions"] = error_reply(404, "of mine")
            response = router.ask()
            assert router.rows(settled=1) == []
            [line] = router.lines("refused")

        assert (response.status_code, response.json()["error"]["message"]) == (404, "of mine")
        assert line["request_id"].endswith("/block")

    def test_what_only_the_candidate_refuses_is_its_failure(self, tmp_path):
        with canary(error_reply(404, "no such model"), tmp_path) as router:
            assert router.ask().status_code == 200
            [row] = router.rows(settled=1)

        assert row["error"].startswith("http-4xx")

    def test_a_refusal_of_the_baseline_alone_is_no_row(self, tmp_path):
        with canary(GOOD, tmp_path) as router:
            router.change("canary", 0.0)
            router.baseline.routes["POST", "/v1/chat/completions"] = error_reply(404, "of mine")
            router.ask()

            assert router.rows(settled=1) == []

    def test_a_shadow_of_what_both_refuse_is_no_row(self, tmp_path):
        with canary(error_reply(404, "x"), tmp_path, "shadow") as router:
            router.baseline.routes["POST", "/v1/chat/completions"] = error_reply(404, "of mine")
            router.ask()

            assert router.rows(settled=2) == []

    def test_a_shadow_of_what_only_the_candidate_refuses_is_its_failure(self, tmp_path):
        with canary(error_reply(404, "x"), tmp_path, "shadow") as router:
            router.ask()
            found = {row["arm"]: row.get("error") for row in router.rows(settled=2)}

        assert found["plain"] is None
        assert found["block"].startswith("http-4xx")


class TestLimits:
    def test_what_is_over_the_rate_goes_to_the_baseline_without_a_row(self, tmp_path):
        from specdecode.rollout.settings import Limits

        limits = Limits(rps=0.001)
        with canary(replying("from the candidate"), tmp_path, limits=limits) as router:
            found = [router.ask() for _ in range(4)]
            rows = router.rows(settled=1)

            assert router.health["candidate"]["spilled"]["rate"] == 3
            assert router.metric("spilled_total", why="rate") == 3
        assert [r.headers["x-specdecode-arm"] for r in found] == ["block", *["plain"] * 3]
        assert "x-specdecode-retried" not in found[1].headers
        assert len(rows) == 1

    def test_a_copy_that_the_limits_keep_back_is_told_to_the_spool(self, tmp_path):
        """Nothing of it was in the spool, so its readers took the rest for all of the traffic."""
        from specdecode.rollout.settings import Limits

        limits = Limits(rps=0.001)
        with canary(replying("from the candidate"), tmp_path, "shadow", limits=limits) as router:
            for _ in range(4):
                router.ask()
            shed = router.lines("shed", settled=5)

        assert [line["why"] for line in shed] == ["the candidate's limits: rate"] * 3
        assert all(line["retract"] == [] for line in shed)

    def test_a_candidate_that_keeps_failing_rests(self, tmp_path):
        from specdecode.rollout.settings import Limits

        limits = Limits(failures=3, pause_s=600)
        with canary(error_reply(500, "x"), tmp_path, limits=limits) as router:
            assert [router.ask().status_code for _ in range(8)] == [200] * 8
            rows = router.rows(settled=3)

            assert len(router.candidate.requests) == len(rows) == 3
            assert router.health["candidate"]["resting"] is True
            assert router.health["candidate"]["spilled"]["breaker"] == 5

    def test_so_many_at_once(self, tmp_path):
        from concurrent.futures import ThreadPoolExecutor

        from specdecode.rollout.settings import Limits
        from tests.rollout.routers import eventually

        gate = threading.Event()
        script = held(gate, replying("from the candidate")(_Streamed))
        with (
            canary(script, tmp_path, limits=Limits(concurrency=2)) as router,
            ThreadPoolExecutor(2) as pool,
        ):
            waiting = [pool.submit(router.ask) for _ in range(2)]
            eventually(lambda: len(router.candidate.requests) == 2)
            third = router.ask()
            gate.set()
            arms = [each.result().headers["x-specdecode-arm"] for each in waiting]

        assert (third.headers["x-specdecode-arm"], arms) == ("plain", ["block"] * 2)

    def test_copies_keep_to_the_rate_as_well(self, tmp_path):
        from specdecode.rollout.settings import Limits

        with canary(GOOD, tmp_path, "shadow", limits=Limits(rps=0.001)) as router:
            for _ in range(4):
                router.ask()
            rows = router.rows(settled=2)

            assert len(router.candidate.requests) == 1
        assert sorted(row["arm"] for row in rows) == ["block", "plain"]


class _Streamed:
    json = {"stream": True}  # noqa: RUF012 - what a script looks at


class TestRows:
    def test_they_say_under_which_state_and_what_came(self, tmp_path):
        with canary(None, tmp_path, "off") as router, WireServer(VLLM.routes()) as server:
            del server
            router.change("canary", 0.0)
            router.baseline.routes.update(VLLM.routes())
            router.ask(
                temperature=0,
                headers={
                    "x-specdecode-prompt-id": "p7",
                    "x-specdecode-category": "code",
                    "x-specdecode-language": "de",
                },
            )
            [row] = router.rows(settled=1)

        assert row["request_id"] == f"{row['prompt_id']}/greedy/plain"
        assert row["prompt_id"].startswith("p7/")
        assert (row["arm"], row["stage"], row["profile"]) == ("plain", "canary", "0")
        assert (row["category"], row["language"], row.get("difficulty")) == ("code", "de", None)
        assert (row["prompt_tokens"], row["output_tokens"]) == (5, 13)
        assert (row["steps"], row["drafted"], row["accepted"]) == (4, 12, 8)
        assert 0 < row["ttft_s"] <= row["e2e_s"]

    def test_no_text_of_anybody_is_in_the_folder(self, tmp_path):
        with canary(replying("a secret reply"), tmp_path, "shadow") as router:
            router.ask(
                "a secret question",
                headers={"x-specdecode-user": "a secret user", "Authorization": "Bearer secretkey"},
            )
            router.rows(settled=2)
        for path in tmp_path.rglob("*"):
            if path.is_file():
                assert b"secret" not in path.read_bytes(), path

    def test_pairs_have_a_prompt_in_common_and_nothing_else(self, tmp_path):
        with canary(GOOD, tmp_path, "shadow") as router:
            for _ in range(3):
                router.ask()
            rows = router.rows(settled=6)

        assert len({row["request_id"] for row in rows}) == 6
        pairs = {row["prompt_id"] for row in rows}
        assert len(pairs) == 3
        for prompt in pairs:
            assert {r["arm"] for r in rows if r["prompt_id"] == prompt} == {"plain", "block"}

    def test_what_cannot_be_one_row_is_answered_by_the_baseline(self, tmp_path):
        with canary(GOOD, tmp_path, "full") as router:
            response = router.ask(n=2)

            assert response.headers["x-specdecode-arm"] == "plain"
            assert router.lines() == [line for line in router.lines() if line["kind"] == "segment"]

    def test_a_share_of_users_is_copied(self, tmp_path):
        with canary(GOOD, tmp_path, "off") as router:
            router.change("shadow", 0.5)
            for i in range(20):
                router.ask(headers={"x-specdecode-user": f"u{i}"})
            copied = router.health["mirror"]["offered"]  # some may still be on their way
            rows = router.rows(settled=2 * copied)

            assert 0 < copied < 20
            assert len(rows) == 2 * copied
            assert len(router.candidate.requests) == copied
            assert router.health["mirror"]["expected"] == 10.0

    def test_token_ids_are_kept_on_request_only(self, tmp_path):
        def script(request):
            assert request.json["return_token_ids"]
            choice = {"index": 0, "delta": {"content": "ab"}, "token_ids": [7, 8]}
            end = {"index": 0, "delta": {}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 2}
            return stream(
                events([{"choices": [choice]}, {"choices": [end]}, {"choices": [], "usage": usage}])
            )

        found = []
        for keep in (False, True):
            with canary(script, tmp_path / str(keep), token_ids=keep) as router:
                router.ask(return_token_ids=True)
                found += router.rows(settled=1)

        assert [row.get("output_token_ids") for row in found] == [None, [7, 8]]


class TestCounts:
    """Token counts of a stream: rows need them, clients that did not ask do not get them."""

    @staticmethod
    def counting(request):
        """A server that tells its counts to those who ask."""
        asked = (request.json.get("stream_options") or {}).get("include_usage")
        chunks = VLLM.chunks()
        return stream(events(chunks if asked else chunks[:-1]))

    @pytest.mark.parametrize("mode", ["shadow", "canary", "full"])
    def test_they_are_asked_for_and_taken_out(self, tmp_path, mode):
        with canary(self.counting, tmp_path, mode) as router:
            router.baseline.routes["POST", "/v1/chat/completions"] = self.counting
            response = router.ask()
            rows = router.rows(settled=2 if mode == "shadow" else 1)

        assert response.content == b"".join(events(VLLM.chunks()[:-1]))
        assert {row["output_tokens"] for row in rows} == {13}
        assert {row["accepted"] for row in rows} == {8}

    def test_whoever_asked_gets_them(self, tmp_path):
        with canary(self.counting, tmp_path) as router:
            response = router.ask(stream_options={"include_usage": True})

        assert response.content == b"".join(events(VLLM.chunks()))

    def test_in_mode_off_nothing_is_asked_for(self, tmp_path):
        with canary(None, tmp_path, "off") as router:
            router.baseline.routes["POST", "/v1/chat/completions"] = self.counting
            router.ask()
            [request] = router.baseline.requests

        assert "stream_options" not in request.json

    def test_nor_if_nobody_wants_that(self, tmp_path):
        with canary(self.counting, tmp_path, ask_usage=False) as router:
            router.ask()
            [row] = router.rows(settled=1)

            assert "stream_options" not in router.candidate.requests[0].json
        assert "output_tokens" not in row

    @pytest.mark.parametrize("mode", ["shadow", "canary"])
    def test_a_server_that_minds_is_not_asked_again(self, tmp_path, mode):
        def minding(request):
            if "stream_options" in request.json:
                return reply(b'{"error": "unknown field"}', "application/json", 422)
            return self.counting(request)

        with canary(minding, tmp_path, mode, ask_usage=True) as router:
            router.baseline.routes["POST", "/v1/chat/completions"] = minding
            found = [router.ask() for _ in range(3)]
            server = router.baseline if mode == "shadow" else router.candidate

            assert [r.status_code for r in found] == [200] * 3
            assert ["stream_options" in r.json for r in server.requests] == [True, *[False] * 3]
        assert found[0].content == b"".join(events(VLLM.chunks()[:-1]))

    def test_a_request_that_is_wrong_is_refused_as_ever(self, tmp_path):
        wrong = reply(b'{"error": "no"}', "application/json", 422)
        with canary(wrong, tmp_path) as router:
            router.baseline.routes["POST", "/v1/chat/completions"] = wrong
            response = router.ask()

            assert (response.status_code, response.content) == (422, b'{"error": "no"}')
            assert router.rows(settled=1) == []


class TestBodies:
    def test_none_are_kept_unless_asked_for(self, tmp_path):
        with canary(GOOD, tmp_path, "shadow") as router:
            router.ask()
            router.rows(settled=2)

        assert not (tmp_path / "bodies").exists()

    def test_both_halves_of_a_pair_are_kept_without_what_is_personal(self, tmp_path):
        script = replying("write to me@post.net")
        with canary(script, tmp_path, "shadow", bodies=1.0) as router:
            router.baseline.routes["POST", "/v1/chat/completions"] = script
            router.ask("I am you@post.net", user="somebody")
            router.rows(settled=2)
        [path] = (tmp_path / "bodies").glob("*.jsonl")
        text = path.read_text()

        assert len(text.splitlines()) == 2
        assert "write to" in text
        assert "post.net" not in text
        assert "somebody" not in text
