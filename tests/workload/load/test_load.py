"""Whole runs: schedules kept, warm-up apart, repeats, counts that add up."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError, UserError
from specdecode.measurement.metrics import METRICS, summarise_metric
from specdecode.measurement.records import read_records
from specdecode.workload.load.journal import DETAILS, ROWS, SAMPLES, SENT, WARM_UP, read_lines
from specdecode.workload.load.verdict import Verdict


def details(found):
    return list(read_lines(found.folder / DETAILS))


OPEN = {"concurrency": None, "arrivals": "poisson", "rate": 100.0}


def test_a_closed_loop_never_has_more_in_flight_than_clients(load):
    found = load({"chunks": 3, "gap_s": 0.01}, concurrency=3, requests=12)

    assert found.complete
    assert found.summary["verdict"]["line"] == "complete: 12 sent = 12 ok"
    assert found.summary["concurrency"]["peak"] <= 3
    assert found.summary["saturation"]["server"]["state"] == "does not apply"
    assert found.summary["loop"] == "closed"


def test_an_open_loop_sends_at_its_times_and_counts_from_them(load):
    found = load({"chunks": 2, "first_s": 0.02}, **OPEN, requests=20)
    rows = details(found)

    assert found.complete
    assert all(row["sent_s"] >= row["due_s"] for row in rows)
    assert all(
        row["lag_s"] == pytest.approx(row["sent_s"] - row["due_s"], abs=2e-6) for row in rows
    )
    for record, row in zip(
        sorted(read_records(found.folder / ROWS), key=lambda r: r.order_index),
        sorted(rows, key=lambda r: r["index"]),
        strict=True,
    ):
        assert record.ttft_s == pytest.approx(row["first_s"] - row["due_s"], abs=2e-6)
        assert record.ttft_s >= 0.02


def test_an_open_loop_does_not_wait_for_replies(load):
    found = load({"after_requests": 10}, **OPEN, requests=10)  # nobody is answered before the last
    assert found.summary["concurrency"]["peak"] == 10


def test_the_same_seed_sends_the_same_requests_at_the_same_times(load, fake):
    first = load(**OPEN, seed=4, temperature=1.0)
    half = len(fake.bodies)
    second = load(**OPEN, seed=4, temperature=1.0)
    other = load(**OPEN, seed=5, temperature=1.0)

    def due(found):
        return sorted(d["due_s"] for d in details(found))

    def key(body):
        return json.dumps(body, sort_keys=True)

    assert due(first) == due(second) != due(other)
    assert sorted(map(key, fake.bodies[:half])) == sorted(map(key, fake.bodies[half : 2 * half]))


def test_a_cap_makes_requests_wait_and_the_wait_is_latency_and_not_lag(load):
    found = load({"first_s": 0.05}, **OPEN, requests=8, max_in_flight=1)
    rows = details(found)
    last = max(rows, key=lambda row: row["queued_s"])

    assert last["queued_s"] > 0.2
    assert last["first_s"] - last["due_s"] > last["queued_s"]
    assert last["lag_s"] == pytest.approx(
        max(0.0, last["sent_s"] - last["due_s"] - last["queued_s"]), abs=3e-6
    )


def test_warm_up_is_sent_and_kept_apart(load, fake):
    found = load(warm_up=4, requests=3)

    assert len(fake.bodies) == 7
    assert len(read_records(found.folder / ROWS)) == 3
    assert len(list(read_lines(found.folder / WARM_UP))) == 4
    assert found.summary["warm_up"]["requests"] == 4
    texts = [json.dumps(body["messages"]) for body in fake.bodies]
    assert len(set(texts)) == 7


def test_a_warm_up_that_finds_no_server_ends_the_run(load):
    found = load(url="http://127.0.0.1:9", warm_up=2)

    assert found.summary["verdict"]["status"] == "failed"
    assert found.summary["verdict"]["sent"] == 0
    assert found.summary["verdict"]["unsent"] == 6
    assert "warm-up found no server: refused" in found.summary["verdict"]["line"]


def test_a_run_gives_up_when_the_server_is_gone(load):
    found = load(url="http://127.0.0.1:9", requests=500, give_up_after=10)

    assert found.summary["verdict"]["sent"] < 30
    assert "10 connection failures in a row" in found.summary["verdict"]["stopped"]


def test_a_server_that_answers_with_errors_is_not_gone(load):
    found = load({"fault": "503"}, requests=12, give_up_after=3)

    assert found.summary["verdict"]["failed"] == {"http-5xx": 12}
    assert found.summary["verdict"]["stopped"] is None


def test_failures_in_between_do_not_end_a_run(load, fake):
    fake.fault_of = {1: "503", 3: "429", 4: "drop"}
    found = load(requests=8, concurrency=1)

    assert found.summary["verdict"]["line"] == (
        "partial: 8 sent = 5 ok + 1 disconnected + 1 http-429 + 1 http-5xx"
    )
    assert not found.complete
    assert found.summary["latency"]["ttft_s"]["n"] == 5


def test_a_duration_ends_a_closed_loop(load):
    found = load({"first_s": 0.05}, requests=None, duration_s=0.4)

    assert found.complete
    assert found.summary["verdict"]["planned"] is None
    assert 2 <= found.summary["verdict"]["sent"] <= 18


def test_rows_keep_the_projects_definitions(load):
    found = load({"chunks": 5, "gap_s": 0.01}, requests=5)
    records = read_records(found.folder / ROWS)
    shown = found.summary["latency"]["tpot_s"]
    expected = summarise_metric(METRICS["tpot_s"], records)

    assert (shown["pooled"], shown["n"]) == (expected.pooled, 5)
    assert {r.manifest_sha256 for r in records} == {found.summary["manifest_sha256"]}
    assert [r.order_index for r in sorted(records, key=lambda r: r.order_index)] == list(range(5))
    assert all(r.tpot_s == pytest.approx((r.e2e_s - r.ttft_s) / 4) for r in records)


def test_everything_sent_is_noted_before_it_is_answered(load):
    found = load(requests=7)
    assert len(list(read_lines(found.folder / SENT))) == 7
    assert len(list(read_lines(found.folder / SAMPLES))) >= 1


def test_a_folder_with_a_run_is_not_overwritten(load, tmp_path):
    load()
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "something").write_text("kept")
    with pytest.raises(UserError, match="not empty"):
        load()
    assert (tmp_path / "run1" / "something").read_text() == "kept"


def test_a_full_disk_is_told_and_ends_the_run(load, monkeypatch):
    def full(_self, _record):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("specdecode.workload.load.journal.RowSpool.append", full)
    with pytest.raises(UserError, match=r"No space left .* --recover"):
        load(requests=200)


def test_a_fault_of_the_client_itself_is_not_swallowed(load, monkeypatch):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("specdecode.workload.load.sending.record_of", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        load()


def test_a_load_client_does_not_pay_for_torch():
    program = "import sys, specdecode.workload.load; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_it_runs_outside_the_main_thread(load):
    found = []
    worker = threading.Thread(target=lambda: found.append(load()))
    worker.start()
    worker.join(120)
    assert found[0].complete


def test_an_overloaded_server_is_marked_and_its_latencies_are_not_valid(load):
    # 60 requests in about half a second to a server that takes 30 ms for each, one at a time.
    found = load({"service_s": 0.03, "chunks": 1}, **OPEN | {"rate": 120.0}, requests=60)

    assert found.summary["saturation"]["server"]["state"] == "saturated"
    assert found.summary["latency_valid"] is False
    assert found.complete  # whole, and yet not a measurement of latency under this load


def test_unreadable_slo_and_cost_are_null_and_not_zero(load):
    found = load({"fault": "503"}, slo={"ttft": 1.0}, price_per_hour=3.0)

    assert found.summary["goodput"]["good"] == 0
    assert found.summary["cost"]["per_million_useful_tokens"] is None
    assert found.summary["cost"]["per_request_within_slo"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": "ftp://x"}, "no http or https address"),
        ({"url": "http://u:p@x"}, "use an API key"),
        ({"slo": {"tftt": 1.0}}, "unknown SLO 'tftt'"),
        ({"slo": {"ttft": 0.0}}, "slo.ttft"),
        ({"concurrency": None}, "a closed loop needs concurrency"),
        ({"arrivals": "poisson"}, "poisson needs rate"),
        ({"arrivals": "ramp", "rate": 1.0}, "ramp needs final_rate"),
        ({"arrivals": "trace"}, "trace needs trace"),
        ({"burstiness": 2.0}, "belongs to gamma"),
        ({"speed_up": 2.0}, "belongs to trace"),
        ({"input_tokens": None}, "nothing to send"),
        ({"prompts": "x"}, "not both"),
        ({"vocab_size": 1000}, "--api completions"),
        ({"requests": None}, "endless"),
        ({"arm": "a b"}, "arm"),
        ({"seed": -1}, "seed"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(load, changes, message):
    with pytest.raises(ConfigError, match=message):
        load(**changes)


counts = st.integers(0, 1000)


@settings(deadline=None)
@given(counts, counts, st.dictionaries(st.sampled_from(["refused", "http-429"]), counts), counts)
def test_a_verdicts_counts_add_up_and_only_a_whole_run_is_complete(ok, cancelled, failed, unsent):
    sent = ok + cancelled + sum(failed.values())
    verdict = Verdict(sent + unsent, sent, ok, cancelled, failed, None)

    whole = not unsent and not sum(failed.values()) and ok + cancelled > 0
    assert (verdict.status == "complete") == whole
    assert (verdict.status == "failed") == (ok + cancelled == 0)
    assert verdict.line.startswith(f"{verdict.status}: {sent} sent = {ok} ok")
