"""The document of a run, from rows and details made by hand."""

from __future__ import annotations

import json

import pytest

from specdecode.workload.load.distributions import of_gaps, spread
from specdecode.workload.load.spec import LoadSpec
from specdecode.workload.load.summary import Ended, summarise
from tests.measurement.factories import MANIFEST, START, record
from tests.workload.load.test_money import FAILED, UNCOUNTED

RUN = {"manifest_sha256": MANIFEST, "planned": 4, "started_at": START.isoformat(), "skipped": {}}
SPEC = LoadSpec(
    url="http://h", model="m", arrivals="constant", rate=1.0, requests=4, input_tokens=10
)


def detail(index, **changes):
    values = {
        "status": "ok", "error_class": None, "error": None, "index": index, "due_s": float(index),
        "sent_s": float(index), "first_s": index + 0.1, "last_s": index + 0.5,
        "ended_s": index + 0.5, "lag_s": 0.0, "queued_s": 0.0, "prompt_tokens": 12,
        "asked_tokens": 10, "output_tokens": 5, "chunks": 2, "chunk_gaps_s": [0.4],
        "token_gaps_s": [[0.1, 4]],
    }  # fmt: skip
    return values | changes


def document(records, details, **changes):
    more = {"warm_up": [], "samples": [], "energy": None} | changes
    return summarise(RUN, SPEC, records, details, Ended(4.0, None), **more)


def test_a_run_of_one_failure_and_three_replies():
    records = [record("a"), record("b"), record("c"), record("d", **FAILED)]
    details = [detail(n) for n in range(3)]
    details += [detail(3, status="failed", error_class="http-5xx", output_tokens=None)]
    found = document(records, details)

    assert found["verdict"]["line"] == "partial: 4 sent = 3 ok + 1 http-5xx"
    assert found["throughput"] == {
        "offered_per_s": 1.0,  # 3 gaps in 3 s
        "ok_per_s": 0.75,
        "output_tokens_per_s": 15 / 4,
    }
    assert found["tokens"]["output"] == 15
    assert found["tokens"]["tokens_per_chunk"] == 2.5
    assert found["tokens"]["synthetic_prompt_tokens_per_token_asked"]["mean"] == 1.2
    assert found["concurrency"]["mean"] == pytest.approx(4 * 0.5 / 4)
    assert found["concurrency"]["peak"] == 1
    assert found["errors"] == {"http-5xx": {"n": 1, "examples": ["http-5xx: boom"]}}
    assert found["finish_reasons"] == {"stop": 3}
    assert found["latency"]["ttft_s"]["n"] == 3
    assert found["latency_valid"] is None  # four requests tell no trend
    json.dumps(found, allow_nan=False)


def test_one_uncounted_reply_makes_totals_unknown_and_not_smaller():
    found = document([record("a"), record("b", **UNCOUNTED)], [detail(0), detail(1)])
    assert found["tokens"]["output"] == "unknown"
    assert found["tokens"]["replies_the_server_did_not_count"] == 1
    assert found["throughput"]["output_tokens_per_s"] is None


def test_a_run_without_rows_is_a_failure_with_nulls():
    found = document([], [])
    assert found["verdict"]["status"] == "failed"
    assert found["concurrency"] == {"mean": None, "peak": None, "over_time": []}
    assert found["latency"]["ttft_s"]["p50"] is None
    assert found["resources"]["gpus"] == found["energy"] == "not measured"
    json.dumps(found, allow_nan=False)


def test_samples_are_summed_up_and_what_is_missing_is_said():
    samples = [
        {"t_s": t, "machine_cpu_percent": cpu, "server_cpu_percent": None, "gpus": None}
        for t, cpu in ((0.0, 10.0), (1.0, 30.0))
    ]
    found = document([record()], [detail(0)], samples=samples)["resources"]

    assert found["machine_cpu_percent"] == {"n": 2, "mean": 20.0, "max": 30.0}
    assert found["server_cpu_percent"] == found["gpus"] == "not measured"


def test_warm_up_enters_nothing_but_its_own_count():
    warm = [detail(0, error="http-5xx: cold"), detail(1)]
    found = document([record()], [detail(0)], warm_up=warm)

    assert found["warm_up"] == {"requests": 2, "failed": 1, "errors": ["http-5xx: cold"]}
    assert found["verdict"]["sent"] == 1


def test_each_token_of_a_chunk_counts_once_in_the_latency_between_tokens():
    # Gaps per token: three times 0.2 s and once 0.5 s; their mean is 1.1 / 4.
    found = of_gaps([detail(0, chunk_gaps_s=[0.6, 0.5], token_gaps_s=[[0.2, 3], [0.5, 1]])])

    assert found["itl_s"]["n"] == 4
    assert found["itl_s"]["mean"] == pytest.approx(0.275)
    assert found["itl_s"]["p50"] == pytest.approx(0.2)
    assert found["chunk_gap_s"]["n"] == 2
    assert found["chunk_gap_s"]["mean"] == pytest.approx(0.55)


def test_gaps_of_failed_replies_are_left_out():
    found = of_gaps([detail(0, status="failed"), detail(1, token_gaps_s=None)])
    assert (found["itl_s"]["n"], found["chunk_gap_s"]["n"]) == (0, 1)


def test_nothing_has_no_mean():
    assert spread([]) == {
        "n": 0, "mean": None, "p50": None, "p90": None, "p95": None, "p99": None, "max": None,
    }  # fmt: skip
