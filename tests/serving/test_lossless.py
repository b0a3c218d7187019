"""The audit reads what the server writes under mixed concurrent traffic."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from specdecode import SamplingParams
from specdecode.audit import audit
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.models import load_model
from tests.serving.servers import NAME, eventually, serving, tiny_engine
from tests.tiny_models import WORDS

CLIENTS, EACH, LENGTH = 16, 8, 40
CELLS = (
    {"temperature": 1.0},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.3, "top_k": 8},
    {"temperature": 0.0},
    {"temperature": 1.0, "min_p": 0.05, "repetition_penalty": 1.2},
    {"temperature": 0.9, "presence_penalty": 0.6, "frequency_penalty": 0.3},
    {"temperature": 1.0, "logit_bias": {"4": 1.5}},
)


def ask(server, index):
    """A reply as a row of the audit; every fifth client goes away in the middle of another one."""
    prompt = " ".join(WORDS[(index * k) % len(WORDS)] for k in range(1, 4 + index % 7))
    sampling = {**CELLS[index % len(CELLS)], "seed": index}
    body = {"model": NAME, "prompt": prompt, "max_tokens": LENGTH, "ignore_eos": True, **sampling}
    if index % 5 == 0:
        url = server.url + "/v1/completions"
        with httpx.stream("POST", url, json={**body, "stream": True}, timeout=120):
            pass
    answer = httpx.post(
        server.url + "/v1/completions", json={**body, "return_token_ids": True}, timeout=120
    ).json()
    (choice,) = answer["choices"]
    bias = {int(token): value for token, value in sampling.pop("logit_bias", {}).items()}
    params = SamplingParams(max_tokens=LENGTH, ignore_eos=True, logit_bias=bias or None, **sampling)
    return {
        "prompt_id": f"p{index}",
        "prompt_token_ids": choice["prompt_token_ids"],
        "output_token_ids": choice["token_ids"],
        "finish_reason": choice["finish_reason"],
        "sampling": params.model_dump(mode="json"),
        "order_index": index,
    }


def rows_of(server):
    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(ask, itertools.repeat(server), range(CLIENTS * EACH)))


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    return tmp_path_factory.mktemp("judged")


def test_mixed_concurrent_traffic_is_lossless(judge):
    with serving(tiny_engine(judge), slots=6) as server:
        rows = rows_of(server)
        eventually(lambda: server.scheduler.running == 0)
        forgotten = [server.scheduler._running, server.scheduler._guard._of]

    report = audit(rows, load_model(judge, device="cpu", dtype="float32"))

    assert report.verdict == "lossless"
    assert not any(forgotten)


class Dishonest(SelfDrafter):
    """Planted fault: states a flatter law than it draws from."""

    def propose(self, contexts, wanted, sample):
        proposal = super().propose(contexts, wanted, sample)
        flat = proposal.probs.sqrt()
        flat /= flat.sum(-1, keepdim=True)
        return type(proposal)(proposal.tokens, flat, proposal.lengths)


def test_a_server_with_a_dishonest_draft_is_not(judge):
    engine = tiny_engine(judge)
    engine.drafter = Dishonest("self-int8", tiny_engine(judge, "early-exit:1").drafter.network)
    with serving(engine, slots=6, guard=False) as server:
        rows = rows_of(server)

    report = audit(rows, load_model(judge, device="cpu", dtype="float32"))

    assert report.verdict == "biased"
