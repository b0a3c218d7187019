"""Every way a reply can end, over a real connection."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from specdecode.errors import ConfigError
from specdecode.measurement.records import read_records
from specdecode.workload.load import EngineSide
from specdecode.workload.load.faults import CLASSES
from specdecode.workload.load.journal import ROWS
from specdecode.workload.load.run import DETAILS, read_lines
from tests.wire import engines as wire
from tests.wire.server import WireServer


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("429", "http-429"),
        ("503", "http-5xx"),
        ("400", "http-4xx"),
        ("302", "http-other"),
        ("json", "not-a-stream"),
        ("reset", "disconnected"),
        ("drop", "disconnected"),
        ("error-event", "stream-error"),
        ("malformed", "malformed"),
        ("no-done", "no-done"),
        ("cut-event", "truncated"),
        ("empty", "empty"),
    ],
)
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_failures_have_a_class_and_no_latency(load, fault, kind, api):
    found = load({"fault": fault}, api=api, requests=3, give_up_after=0)
    records = read_records(found.folder / ROWS)

    assert found.summary["verdict"]["failed"] == {kind: 3}
    assert found.summary["verdict"]["status"] == "failed"
    assert kind in CLASSES
    assert all(r.error.startswith(f"{kind}: ") for r in records)
    assert all(r.ttft_s is r.e2e_s is r.output_tokens is r.finish_reason is None for r in records)
    assert found.summary["latency"]["ttft_s"]["n"] == 0


def test_a_server_that_stalls_runs_into_the_idle_limit(load):
    found = load({"fault": "stall"}, requests=2, idle_timeout_s=0.2)
    assert found.summary["verdict"]["failed"] == {"idle-timeout": 2}


def test_a_reply_that_never_ends_runs_into_its_deadline(load):
    found = load({"chunks": 10_000, "gap_s": 0.01}, requests=2, deadline_s=0.3)
    assert found.summary["verdict"]["failed"] == {"deadline": 2}
    assert found.summary["errors"]["deadline"]["examples"] == [
        "deadline: not finished 0.3 s after it was due"
    ]
    assert found.summary["saturation"]["server"]["state"] == "saturated"


def test_a_server_that_keeps_the_connection_after_its_last_word_has_answered(load, monkeypatch):
    assert load({"fault": "linger"}, requests=2).complete
    monkeypatch.setattr("specdecode.workload.load.exchange._DRAIN_S", 60.0)
    assert load({"fault": "linger"}, requests=1, deadline_s=2.0).complete


def test_nothing_listening_is_refused(load):
    found = load(url="http://127.0.0.1:9", requests=3)
    assert found.summary["verdict"]["failed"] == {"refused": 3}


def test_the_wish_to_wait_is_kept(load):
    found = load({"fault": "429"}, requests=1)
    (details,) = read_lines(found.folder / DETAILS)
    assert (details["http_status"], details["retry_after"]) == (429, "7")


def test_tokens_come_from_usage_and_chunks_stay_chunks(load):
    found = load({"chunks": 4, "tokens_per_chunk": 3})
    (record, *_) = read_records(found.folder / ROWS)

    assert record.output_tokens == 12
    assert found.summary["tokens"]["tokens_per_chunk"] == 3.0
    assert found.summary["gaps"]["chunk_gap_s"]["n"] == 6 * 3
    assert found.summary["gaps"]["itl_s"]["n"] == 0  # nobody told the tokens of each chunk


def test_without_usage_tokens_are_unknown(load):
    found = load({"chunks": 4}, include_usage=False)
    (record, *_) = read_records(found.folder / ROWS)

    assert record.error is None
    assert record.output_tokens is None
    assert record.tpot_s is None
    assert record.ttft_s is not None
    assert found.summary["tokens"]["output"] == "unknown"
    assert found.summary["throughput"]["output_tokens_per_s"] is None


@pytest.mark.parametrize("behaviour", [{"count_along": True}, {}])
def test_tokens_between_chunks_are_known_where_the_server_counts_along(load, behaviour):
    found = load({"chunks": 3, "tokens_per_chunk": 2, **behaviour}, token_ids=not behaviour)
    assert found.summary["gaps"]["itl_s"]["n"] == 6 * 2 * 2


def test_token_ids_and_text_are_recorded_only_when_asked_for(load):
    (plain, *_) = read_records(load({"chunks": 2}).folder / ROWS)
    (full, *_) = read_records(load({"chunks": 2}, token_ids=True, keep_text=True).folder / ROWS)

    assert plain.output_text is plain.output_token_ids is None
    assert (full.output_text, full.output_token_ids) == ("x x ", [7, 7])


def test_ids_that_disagree_with_the_count_are_not_recorded(load, monkeypatch):
    monkeypatch.setattr(
        "specdecode.workload.load.exchange._note",
        _doubling_ids(__import__("specdecode.workload.load.exchange", fromlist=["_note"])._note),
    )
    (record, *_) = read_records(load({"chunks": 2}, token_ids=True).folder / ROWS)

    assert record.output_tokens == 2
    assert record.output_token_ids is None


def _doubling_ids(note):
    def noted(payload, call, seen, now, told):
        note(payload, call, seen, now, told)
        if payload.finish_reason:
            seen.token_ids = [*(seen.token_ids or []), 9]

    return noted


def test_cancelled_streams_are_closed_and_counted_apart(load, fake):
    found = load({"chunks": 400, "gap_s": 0.01}, cancel_share=1.0, cancel_after=3, requests=4)

    assert found.summary["verdict"]["cancelled"] == 4
    assert found.summary["verdict"]["status"] == "complete"
    assert found.summary["errors"] == {}
    end = time.monotonic() + 60  # the server notices when it writes next
    while fake.closed_early < 4 and time.monotonic() < end:
        time.sleep(0.02)
    assert fake.closed_early == 4
    assert all(d["chunks"] == 3 for d in read_lines(found.folder / DETAILS))


def test_the_key_is_sent_and_recorded_nowhere(load, fake):
    found = load(api_key="very-secret")

    assert all(h["authorization"] == "Bearer very-secret" for h in fake.headers)
    for path in found.folder.rglob("*"):
        assert b"very-secret" not in path.read_bytes()


def test_the_body_is_that_of_its_api(load, fake):
    load(api="chat", requests=1, temperature=0.5, extra_body={"min_p": 0.1})
    load(api="completions", requests=1, vocab_size=1000, ignore_eos=True)
    chat, completions = fake.bodies

    assert chat["messages"][0]["role"] == "user"
    assert chat["min_p"] == 0.1
    assert 0 <= chat["seed"] < 2**31
    assert chat["stream"] is True
    assert chat["stream_options"] == {"include_usage": True}
    assert "ignore_eos" not in chat
    assert len(completions["prompt"]) == 8
    assert completions["ignore_eos"] is True
    assert "seed" not in completions


def test_a_connection_is_used_again_after_a_whole_reply_and_not_after_a_cut_one(load, fake):
    load(concurrency=1, requests=5)
    assert fake.connections == 1

    load({"chunks": 50, "gap_s": 0.01}, concurrency=1, requests=3, cancel_share=1.0)
    assert fake.connections == 1 + 3


def test_llama_cpp_closes_after_each_stream_and_no_request_is_lost_by_it(load, fake):
    """It used to be told as `disconnected`, now and then, though the server was well."""
    fake.hangs_up = True
    side = EngineSide.find(fake.url, "llama.cpp", None)
    before = fake.connections

    found = load(concurrency=2, requests=40, engine=side)

    assert found.complete, found.summary["verdict"]["line"]
    assert fake.connections - before >= 40


@pytest.mark.parametrize("engine", wire.ALL, ids=lambda e: e.name)
def test_acceptance_is_read_from_every_engine_that_tells_it(load, engine):
    with WireServer(engine.routes()) as server:
        side = EngineSide.find(server.url, "auto", None)
        assert side.detected.engine == engine.name
        found = load(url=server.url, model="m", engine=side, requests=2)
    (record, _) = read_records(found.folder / ROWS)
    manifest = json.loads((found.folder / "run.json").read_text())["manifest"]

    assert found.complete
    assert record.output_tokens == wire.TOKENS
    assert manifest["server"]["engine"] == engine.name
    if engine.name in ("tgi", "tensorrt-llm", "generic"):
        assert record.steps is record.drafted is record.accepted is None
    else:
        assert record.drafted == wire.DRAFTED
        assert record.accepted == wire.ACCEPTED
    assert found.summary["engine"]["requests_and_counters_differ"] is not None


def test_an_engine_can_be_named_and_must_exist(fake):
    assert EngineSide.find(fake.url, "vllm", None).detected.engine == "vllm"
    with pytest.raises(ValueError, match="no adapter"):
        EngineSide.find(fake.url, "abacus", None)


def test_every_class_of_failure_is_documented():
    page = (Path(__file__).parents[3] / "docs" / "load.md").read_text(encoding="utf-8")
    table = page.split("| class | meaning |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", table, re.MULTILINE)
    assert dict(rows) == CLASSES


def test_a_server_that_wants_a_key_is_not_called_one_without_models():
    answers = {"/v1/models": SimpleNamespace(status=401)}
    found = SimpleNamespace(facts=SimpleNamespace(base_url="http://x", answers=answers))
    with pytest.raises(ConfigError, match=r"wants an API key.*--api-key-env"):
        _ = EngineSide(found, None).only_model
