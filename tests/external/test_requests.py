"""What vLLM is asked for an audit, and what becomes of its answers."""

from __future__ import annotations

import itertools

import httpx
import pytest

from pipelines.external.requests import SETTINGS, Ask, asks, row_of, send
from pipelines.external.servers import draft_model, ngram, vllm_command
from specdecode import SamplingParams
from specdecode.audit.rows import read_rows
from specdecode.errors import EngineError
from tests.tiny_models import EOS, WORDS

ASK = Ask(
    3, "t1", "p", [5, 6], SamplingParams(temperature=1.0, max_tokens=4, ignore_eos=True, seed=9)
)
STATS = {
    "num_spec_steps": 2,
    "num_draft_tokens": 6,
    "num_accepted_draft_tokens": 2,
    "acceptance_histogram": [0, 2],
    "num_spec_tokens": 3,
}


def answer(status=200, choice=None, **body):
    told = {"index": 0, "prompt_token_ids": [5, 6], "token_ids": [7, 8], "finish_reason": "length"}
    return httpx.Response(status, json={"choices": [told | (choice or {})], **body})


class Words:
    chat_template = None

    def __call__(self, text, **_):
        return {"input_ids": [len(word) for word in text.split()][:20]}


class Vocabulary:
    vocab_size, eos_token_ids, max_context = 2 + len(WORDS), {EOS}, 100

    def decode(self, _):
        return ""


def test_only_what_was_asked_for_is_sent():
    assert ASK.body() == {
        "model": "target",
        "prompt": [5, 6],
        "return_token_ids": True,
        "temperature": 1.0,
        "max_tokens": 4,
        "ignore_eos": True,
        "seed": 9,
    }


def test_every_way_to_sample_is_asked_for_with_a_seed_of_its_own():
    made = asks(Words(), rounds=3, seed=100)

    assert [a.index for a in made] == list(range(3 * len(SETTINGS)))
    assert [a.params.seed for a in made] == [100 + a.index for a in made]
    for setting, group in itertools.groupby(
        sorted(made, key=lambda a: a.setting), lambda a: a.setting
    ):
        prompts = [a.prompt_id for a in group]
        assert len(set(prompts)) == 3, setting
    assert made == asks(Words(), rounds=3, seed=100)


def test_a_reply_becomes_a_row_that_the_audit_reads():
    row = row_of(ASK, "draft_model", answer(metrics={"speculative_decoding": STATS}))

    assert (row["steps"], row["drafted"], row["accepted"]) == (2, 6, 2)
    read = read_rows([row], Vocabulary())
    assert read.drafted
    (judged,) = read.rows
    assert (judged.prompt, judged.output) == ([5, 6], [7, 8])
    assert judged.params == ASK.params


def test_what_vllm_refuses_is_a_row_with_its_reason_and_nothing_to_judge():
    refused = httpx.Response(400, json={"error": {"message": "min_p is not supported"}})

    row = row_of(ASK, "ngram", refused)

    assert row["error"] == "HTTP 400: min_p is not supported"
    read = read_rows([row], Vocabulary())
    assert (len(read.rows), len(read.errors)) == (0, 1)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (httpx.Response(500, text="no memory"), "HTTP 500: no memory"),
        (answer(choice={"token_ids": None}), "return_token_ids"),
        (answer(choice={"prompt_token_ids": [1, 5, 6]}), "does not repeat the prompt"),
    ],
)
def test_an_answer_that_cannot_be_judged_ends_the_audit(reply, says):
    with pytest.raises(EngineError, match=says):
        row_of(ASK, "plain", reply)


def test_vllm_is_asked_for_acceptance_only_where_something_drafts(tmp_path):
    plain = vllm_command(tmp_path, tmp_path / "target").argv
    drafts = vllm_command(tmp_path, tmp_path / "target", speculative=ngram()).argv

    assert not any("spec" in part for part in plain)
    assert "--per-request-spec-decode-metrics" in drafts
    assert draft_model(tmp_path, 4)["num_speculative_tokens"] == 4


def test_a_server_that_is_gone_is_one_sentence():
    with pytest.raises(EngineError, match=r"request 3 of arm plain: .*refused"):
        list(send("http://127.0.0.1:9", [ASK], "plain"))
