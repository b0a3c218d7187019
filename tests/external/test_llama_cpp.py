"""llama.cpp as it is: what it tells is what the adapter says it tells."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from pipelines.external.servers import CONTEXT, llama_cpp_command
from specdecode.workload.engines import differences
from specdecode.workload.engines.unknown import Unknown
from specdecode.workload.server_process import ServerProcess
from tests.external.conftest import THREADS
from tests.external.talk import chat, load, read, recognise, replies_and_interval

pytestmark = [pytest.mark.external, pytest.mark.real_model, pytest.mark.slow]


def start(folder, models, log, **options):
    command = llama_cpp_command(folder, models.gguf, slots=4, threads=THREADS, **options)
    return ServerProcess(command, log)


@pytest.fixture(scope="module")
def folder(installed):
    return installed("llama.cpp")


@pytest.fixture(scope="module")
def server(folder, models, tmp_path_factory):
    log = tmp_path_factory.mktemp("llama.cpp") / "log"
    with start(folder, models, log, draft=models.gguf_draft) as running:
        yield running


@pytest.fixture(scope="module")
def found(server):
    return recognise(server.url)


def test_it_is_recognised_with_its_version(found):
    assert found.engine == "llama.cpp"
    assert found.doubts == ()
    assert found.version == found.facts.object("/props")["build_info"]


def test_it_tells_its_context_and_load(found):
    state = found.adapter.state(found.facts)

    assert state.ready is True
    assert state.context_length == CONTEXT
    assert (state.running, state.queued) == (0, 0)
    assert state.options["model_ftype"] == "Q4_1"
    assert "kv_cache_tokens" in state.unknown


def test_it_does_not_show_how_it_accepts(found):
    assert found.adapter.rule(found.facts).seen == "hidden"


def test_drafted_and_accepted_tokens_of_requests_add_up_to_its_counters(server, found):
    bodies, interval = replies_and_interval(server.url, found.adapter, temperature=0.8)

    told = [found.adapter.of_reply([body], found.version) for body in bodies]
    assert sum(r.drafted for r in told) == interval.speculation.drafted > 0
    assert sum(r.accepted for r in told) == interval.speculation.accepted > 0
    assert interval.generated_tokens == sum(b["usage"]["completion_tokens"] for b in bodies)
    # Steps are derived, so nothing is said of them; the other counts agree.
    (about,) = differences(told, interval.speculation)
    assert about.startswith("steps cannot be compared")


def test_a_prompt_that_was_seen_is_computed_again(server, found):
    first, again = (chat(server.url, "Say it twice.", max_tokens=1) for _ in range(2))

    assert first["usage"]["prompt_tokens"] == again["usage"]["prompt_tokens"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert found.adapter.state(read(server.url, found.adapter)).prefix_hit_tokens == 0


def test_a_load_on_it_is_whole_and_tells_acceptance(server, tmp_path):
    result = load(server.url, tmp_path)

    assert result.complete, result.summary["verdict"]["line"]
    rows = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    counted = result.summary["engine"]["counters"]["speculation"]
    assert sum(row["drafted"] for row in rows) == counted["drafted"] > 0
    assert sum(row["accepted"] for row in rows) == counted["accepted"]
    assert all(row["steps"] is None for row in rows), "derived steps do not belong in a record"


def test_without_a_draft_it_drafts_nothing_and_ends_in_good_order(folder, models, tmp_path):
    with start(folder, models, tmp_path / "log") as plain:
        adapter = recognise(plain.url).adapter
        body = chat(plain.url, "Say hello.", max_tokens=4, temperature=0)
        told = adapter.of_reply([body])
        interval = adapter.between(read(plain.url, adapter), read(plain.url, adapter))
        code = plain.stop()

    assert body["usage"]["completion_tokens"] <= 4, json.dumps(body)
    assert told.drafted is None
    assert "nothing was drafted" in told.unknown["drafted"]
    assert not isinstance(interval.generated_tokens, Unknown)
    assert code == 0
