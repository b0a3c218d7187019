"""Which engine answers: by signs, never by guess."""

from __future__ import annotations

import asyncio

import pytest

from specdecode.errors import ConfigError
from specdecode.workload.engines import ENGINES, UnreachableError, adapter_of, detect, recognise
from tests.wire.engines import ALL, GENERIC, LLAMA_CPP, OWN, SGLANG, TGI, VLLM, models
from tests.wire.metrics import sglang_metrics, vllm_metrics
from tests.wire.replies import error_reply
from tests.wire.server import WireServer
from tests.workload.engines.asking import facts, served

VERSIONS = {
    "specdecode": "0.1.0",
    "vllm": "0.32.0",
    "sglang": "0.5.23",
    "llama.cpp": "b9999-abcdef0",
    "tgi": "3.3.6",
    "tensorrt-llm": "1.2.0",
    "generic": None,
}


@pytest.mark.parametrize("wire", [pytest.param(w, id=w.name) for w in ALL])
def test_every_engine_is_known_with_its_version(wire):
    with WireServer(wire.routes()) as server:
        found = asyncio.run(detect(f"{server.url}/v1", timeout_s=60))

    assert (found.engine, found.version) == (wire.name, VERSIONS[wire.name])
    assert bool(found.evidence) == (wire is not GENERIC)
    assert bool(found.doubts) == (wire is GENERIC)


@pytest.mark.parametrize("wire", [pytest.param(w, id=w.name) for w in ALL if w is not GENERIC])
@pytest.mark.parametrize("silent", ["/metrics", "/v1/models"])
def test_one_sign_is_enough(wire, silent):
    assert recognise(served(wire, **{silent: None})).engine == wire.name


def test_our_own_server_is_not_taken_for_the_one_it_speaks_like():
    found = recognise(served(OWN))

    assert found.engine == "specdecode"
    assert any(name.startswith("vllm:") for name in found.facts.metrics.series)


def test_a_proxy_in_front_of_two_engines_is_not_taken_for_either():
    both = {"/metrics": vllm_metrics() + sglang_metrics()}
    found = recognise(served(VLLM, **both))

    assert found.engine == "generic"
    assert "several engines" in found.doubts[0]
    assert {d.partition(":")[0] for d in found.doubts[1:]} == {"vllm", "sglang"}


def test_what_was_silent_is_said():
    found = recognise(served(GENERIC, **{"/metrics": error_reply(501, "start with --metrics")}))

    assert found.doubts[0] == "no sign of a known engine"
    assert "/metrics: HTTP status 501" in found.doubts


def test_a_server_of_html_is_generic():
    page = "<!doctype html><title>vllm</title>"
    found = recognise(facts(**{"/metrics": page, "/v1/models": page, "/info": page}))

    assert found.engine == "generic"


def test_a_name_in_the_wrong_place_is_no_sign():
    listed = models("someone")
    listed["data"][0]["id"] = "vllm"

    assert recognise(facts(**{"/v1/models": listed})).engine == "generic"


def test_nobody_there_is_an_error_not_a_generic_server():
    with WireServer({}) as server:
        url = server.url

    with pytest.raises(UnreachableError):
        asyncio.run(detect(url))


def test_a_server_that_is_still_loading_is_known_and_not_ready():
    found = recognise(served(LLAMA_CPP, **{"/health": error_reply(503, "Loading model")}))

    assert found.engine == "llama.cpp"
    assert found.adapter.state(found.facts).ready is False


def test_llama_cpp_by_its_header_alone():
    empty = facts(**{"/health": "ok"})
    empty.answers["/health"].headers["server"] = "llama.cpp"

    assert recognise(empty).engine == "llama.cpp"


def test_an_older_info_of_tgi():
    info = {"model_id": "m", "max_total_tokens": 1, "waiting_served_ratio": 1.2, "version": "1.4.0"}
    found = recognise(facts(**{"/info": info}))

    assert (found.engine, found.version) == ("tgi", "1.4.0")


def test_an_older_address_of_sglang():
    info = SGLANG.about["/server_info"]
    found = recognise(facts(**{"/get_server_info": info}))

    assert (found.engine, found.version) == ("sglang", "0.5.23")


class TestAdapterOf:
    @pytest.mark.parametrize("name", ENGINES)
    def test_by_name(self, name):
        assert adapter_of(name).name == name

    def test_an_unknown_name_lists_the_known_ones(self):
        with pytest.raises(ConfigError, match=r"llama\.cpp"):
            adapter_of("ollama")


def test_tgi_is_not_taken_for_another_by_its_models():
    assert recognise(served(TGI, **{"/v1/models": models("m")})).engine == "tgi"
