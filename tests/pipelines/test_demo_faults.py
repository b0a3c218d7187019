"""Faults of the demonstration: what each does, when it begins, and who finds the bias."""

from __future__ import annotations

import asyncio
import random

import pytest
import torch

from pipelines.demo.engine import DRAFT_TOKENS, RULE
from pipelines.demo.faults import BIASED, FAULTS, FaultSettings, Faulty, without_residual
from pipelines.demo.model import make_models
from pipelines.demo.traffic import made_trace
from specdecode.audit import audit_arms
from specdecode.decoding import Engine, SamplingParams
from specdecode.errors import ConfigError
from specdecode.verification import RULES, Coins, block_verification

CHAT = "/v1/chat/completions"


class Front:
    """An application behind a fault, and what it was asked."""

    def __init__(self, **settings):
        self.waits: list[float] = []
        self.reached = 0
        self.app = Faulty(self._answer, FaultSettings(**settings), self._wait)

    async def _wait(self, seconds):
        self.waits.append(seconds)

    async def _answer(self, _scope, _receive, send):
        self.reached += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})

    def ask(self, path=CHAT, category=b"chat", kind="http"):
        sent = []

        async def send(message):
            sent.append(message)

        headers = [(b"x-specdecode-category", category)]
        scope = {"type": kind, "path": path, "headers": headers}
        asyncio.run(self.app(scope, None, send))
        return sent[0]["status"], sent[1]["body"]


def test_without_a_fault_everything_passes():
    front = Front()
    assert {front.ask()[0] for _ in range(50)} == {200}
    assert front.waits == []


def test_a_slow_engine_answers_late_every_time():
    front = Front(fault="slow", delay_s=2.5)
    assert [front.ask()[0] for _ in range(3)] == [200] * 3
    assert front.waits == [2.5] * 3


def test_it_may_wait_for_a_sign():
    front = Front(fault="slow", waits=True)
    front.ask()
    assert front.waits == []

    front.app.begin()

    front.ask()
    assert len(front.waits) == 1


def test_one_stratum_is_harmed_and_no_other():
    front = Front(fault="one-stratum", category="code")
    for category in (b"chat", b"code", b"question", b"code"):
        front.ask(category=category)
    assert len(front.waits) == 2
    assert front.reached == 4


def test_errors_hit_about_their_share_the_same_ones_every_time():
    first, second = Front(fault="errors"), Front(fault="errors")
    codes = [first.ask()[0] for _ in range(1000)]

    assert 30 <= codes.count(500) <= 70
    assert codes.count(500) + codes.count(200) == 1000
    assert codes == [second.ask()[0] for _ in range(1000)]
    assert first.reached == codes.count(200)


def test_an_error_is_one_of_the_api():
    status, body = Front(fault="errors", share=1.0).ask()
    assert status == 500
    assert b'"type": "server_error"' in body


@pytest.mark.parametrize("fault", ["slow", "errors"])
def test_only_answers_are_at_fault(fault):
    front = Front(fault=fault, share=1.0)
    assert front.ask(path="/health")[0] == 200
    assert front.ask(kind="lifespan")[0] == 200
    assert front.waits == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param({"fault": "ugly"}, "choose one of none, slow", id="unknown"),
        pytest.param(
            {"fault": BIASED, "waits": True}, "biased from its first reply", id="late bias"
        ),
        pytest.param({"delay_s": 0.0}, "delay_s", id="delay"),
        pytest.param({"share": 0.0}, "share", id="share"),
        pytest.param({"share": 1.5}, "share", id="share above 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        FaultSettings(**settings)


def test_the_faulty_rule_keeps_what_block_verification_keeps_and_draws_from_the_target():
    generator = torch.Generator().manual_seed(1)

    def laws(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).softmax(-1)

    draft, target = laws(64, 3, 9), laws(64, 4, 9)
    tokens = torch.stack(
        [torch.multinomial(draft[:, i], 1, generator=generator)[:, 0] for i in range(3)], 1
    )
    coins = Coins(
        torch.rand(64, 3, generator=generator, dtype=torch.float64),
        torch.rand(64, generator=generator, dtype=torch.float64),
    )
    right = block_verification(tokens, draft, target, coins)
    wrong = without_residual(tokens, draft, target, coins)

    assert torch.equal(right.num_accepted, wrong.num_accepted)
    whole = right.num_accepted == 3
    assert 0 < int(whole.sum()) < 64
    assert torch.equal(right.next_token[whole], wrong.next_token[whole])
    assert not torch.equal(right.next_token, wrong.next_token)
    at = target[torch.arange(64), wrong.num_accepted].cumsum(-1)
    drawn = (at <= coins.resample[:, None]).sum(-1)
    assert torch.equal(wrong.next_token, drawn)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return make_models(tmp_path_factory.mktemp("models"))


def replies(models, draft, seed):
    """The rows of 320 requests of the trace, as a router would record them."""
    engine = Engine.load(
        models.target,
        draft,
        verification=RULE,
        num_speculative_tokens=DRAFT_TOKENS,
        device="cpu",
        dtype="auto",
    )
    draw = random.Random(seed)  # noqa: S311 - seeds of replies, no secret
    rows = []
    trace = made_trace()
    for start in range(0, 320, 40):
        part = trace[start : start + 40]
        found = engine.generate(
            [[{"role": "user", "content": asked.prompt}] for asked in part],
            [
                SamplingParams(
                    max_tokens=a.max_tokens, temperature=a.temperature, seed=draw.getrandbits(31)
                )
                for a in part
            ],
        )
        rows += [
            {
                "prompt_id": asked.conversation,
                "prompt_token_ids": list(reply.prompt_token_ids),
                "output_token_ids": list(reply.token_ids),
                "finish_reason": reply.finish_reason,
                "drafted": reply.acceptance.drafted if draft else None,
                "sampling": {"temperature": asked.temperature, "max_tokens": asked.max_tokens},
            }
            for asked, reply in zip(part, found, strict=True)
        ]
    return rows


def test_the_audit_tells_the_biased_engine_from_the_good_one(models, monkeypatch):
    arms = {"plain": replies(models, None, 1), "good": replies(models, models.draft, 2)}
    monkeypatch.setitem(RULES, RULE, without_residual)
    arms["biased"] = replies(models, models.draft, 3)

    found = audit_arms(arms, models.target, models.draft, 0.01, baseline_arm="plain")

    assert {arm: report.verdict for arm, report in found.items()} == {
        "plain": "lossless",
        "good": "lossless",
        "biased": "biased",
    }


def test_every_fault_is_explained_in_the_documentation():
    from pathlib import Path

    page = Path(__file__).parents[2].joinpath("docs/demo.md").read_text("utf-8")
    for fault in (*FAULTS[1:], "little-traffic"):
        assert f"`{fault}`" in page
