"""Requests and server have to tell the same story."""

from __future__ import annotations

from specdecode.workload.engines import ENGINES, AggregateSpeculation, differences
from specdecode.workload.engines.unknown import Unknown
from tests.wire.engines import LLAMA_CPP, TGI, VLLM
from tests.wire.metrics import vllm_metrics
from tests.workload.engines.asking import metrics

vllm = ENGINES["vllm"]
ONE = vllm.of_reply(VLLM.chunks())


def server(times):
    return vllm.between(metrics(vllm_metrics(0)), metrics(vllm_metrics(times), 1)).speculation


def test_all_agree():
    assert differences([ONE] * 3, server(3)) == ()


def test_cancelled_requests_that_only_the_server_counted():
    found = differences([ONE] * 7, server(10))

    assert found[0] == (
        "steps: 28 in 7 requests, 40 on the server: other clients, cancelled requests or several "
        "replies to one"
    )
    assert len(found) == 3


def test_cancelled_requests_that_the_server_forgot():
    assert "steps: 40 in 10 requests, 28 on the server" in differences([ONE] * 10, server(7))[0]


def test_requests_that_do_not_tell():
    silent = ENGINES["tgi"].of_reply(TGI.chunks())
    found = differences([ONE, silent], server(2))

    assert "1 of 2 requests have no exact number" in found[0]


def test_steps_that_are_only_derived_are_not_compared():
    derived = ENGINES["llama.cpp"].of_reply(LLAMA_CPP.chunks())
    [found] = differences([derived], server(1))

    assert found.startswith("steps cannot be compared: 1 of 1 requests")


def test_a_server_that_was_restarted():
    reset = AggregateSpeculation.nothing("x", "it was reset")

    assert all("it was reset" in each for each in differences([ONE], reset))


def test_no_request_and_no_work():
    assert differences([], server(0)) == ()
    assert len(differences([], server(1))) == 3


def test_what_only_one_side_knows():
    half = AggregateSpeculation.of(
        "x", steps=4, drafted=Unknown("not counted"), accepted=8, histogram=Unknown("no")
    )

    assert differences([ONE], half) == ("drafted cannot be compared: the server, not counted",)
