"""The acceptance guard: drafts that do not pay stop, those that pay stay, and no law changes."""

from __future__ import annotations

import logging
import time

import httpx
import numpy as np
import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding.intake import make_requests
from specdecode.decoding.result import finished
from specdecode.decoding.running import RunningBatch
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.serving import guard as guard_module
from specdecode.serving import step_costs
from specdecode.serving.guard import PLAIN, SPECULATING, AcceptanceGuard
from specdecode.serving.step_costs import MeasuredCosts
from specdecode.verification.exact import total_variation
from tests.decoding.drafters import toy_drafters
from tests.decoding.reply_laws import plain_law
from tests.decoding.test_joining import RaggedExplorer
from tests.decoding.toys import TableNetwork, ToyModel
from tests.serving.servers import serving, tiny_engine
from tests.serving.test_api import ASK, post

GAMMA = 4


class Traffic:
    """Slots full of requests, with costs in plain steps instead of a clock.

    Args:
        ratio: cost of a step in which any slot drafts, or that by how many do.
        kept: (step, random numbers) -> draft tokens kept.
        slots: how many.
        tokens: of a reply; then the next request takes the slot.
        noise: standard deviation of the logarithm of a measured time.
        seed: of the noise.
        reading: cost of a prompt for the draft, which reads it if any slot drafts.
    """

    def __init__(self, ratio, kept, slots=4, tokens=40, *, noise=0.0, seed=0, reading=0.0):
        self.reading = reading
        self.noise, self.clock = noise, np.random.default_rng(seed)
        self.switched = []
        self.guard = AcceptanceGuard(GAMMA, self.switched.append)
        self.ratio, self.kept, self.tokens = ratio, kept, tokens
        self.slots = slots
        self.replies = {}
        self.rng = np.random.default_rng(1)
        self.step = 0

    def run(self, steps):
        """Tokens and cost of so many steps."""
        made = spent = 0.0
        for _ in range(steps):
            while len(self.replies) < self.slots:
                if self.guard.is_drafting:
                    self.guard.read(self.reading)
                    spent += self.reading
                request = new_request()
                self.replies[request] = self.guard.lengths_of(request)
            if self.guard.wants_plain_cost(self.slots):
                self.guard.plain_cost(self.slots, self.measured(1.0))
                spent += 1
            chosen = {r: length.choose((), GAMMA) for r, length in self.replies.items()}
            for request, drafted in chosen.items():
                kept = min(drafted, self.kept(self.step, self.rng)) if drafted else 0
                self.replies[request].observe(drafted, kept)
                request.output += [0] * (kept + 1)
                made += kept + 1
                if len(request.output) >= self.tokens:
                    self.guard.forget(request)
                    del self.replies[request]
            drafting = sum(length > 0 for length in chosen.values())
            cost = self.cost(drafting) if drafting else 1.0
            self.guard.stepped(self.slots, self.measured(cost))
            spent += cost
            self.step += 1
        return made / self.slots, spent

    def cost(self, drafting):
        return self.ratio(drafting) if callable(self.ratio) else self.ratio

    def measured(self, cost):
        return cost * float(np.exp(self.noise * self.clock.standard_normal()))


def new_request():
    return make_requests(ToyModel(TableNetwork(1)), [[0]], SamplingParams(max_tokens=40))[0]


def useless(_step, _rng):
    return 0


def nearly_useless(_step, rng):
    return int(rng.random() < 0.05)


@pytest.mark.parametrize("ratio", [1.15, 1.6, 3.0, 8.0])
@pytest.mark.parametrize("kept", [useless, nearly_useless])
@pytest.mark.parametrize("slots", [1, 8])
def test_a_draft_that_became_useless_is_dropped_within_200_steps(ratio, kept, slots):
    """From then on throughput is at least 95 % of plain decoding's."""
    traffic = Traffic(ratio, lambda _s, _r: GAMMA, slots)
    traffic.run(600)
    before = list(traffic.switched)
    traffic.kept = kept
    traffic.run(200)

    made, spent = traffic.run(3000)

    assert made / spent >= 0.95
    assert before == [] or ratio > GAMMA + 1
    assert PLAIN in traffic.switched


def throughput_after_200_steps(seed):
    """Of a draft that was good for a short while, with clocks that err by 30 %."""
    traffic = Traffic(1.3, lambda _s, _r: GAMMA, slots=1, noise=0.3, seed=seed)
    traffic.run(60)
    traffic.kept = useless
    traffic.run(200)
    made, spent = traffic.run(200)
    return made / spent


@pytest.mark.parametrize("seed", [6, 13, 16])
def test_clocks_that_err_do_not_hide_a_useless_draft(monkeypatch, seed):
    """Plain steps are timed more often where drafts do not clearly pay."""
    assert throughput_after_200_steps(seed) >= 0.95

    monkeypatch.setattr(step_costs, "_SOON", 10**9)
    assert throughput_after_200_steps(seed) < 0.95


def test_plain_steps_are_tried_out_for_a_small_share_of_the_time():
    costs, tried = MeasuredCosts(), 0
    for _ in range(2000):
        if costs.lacks_plain(1, doubtful=True):
            costs.tried(1, 1.0)
            tried += 1
        costs.drafted(1, 2.0)

    assert tried <= 8 + 0.02 * 2000


@pytest.mark.parametrize(("ratio", "chance"), [(1.2, 0.6), (1.6, 0.7), (2.5, 0.9), (0.9, 0.0)])
def test_drafts_that_pay_stay(ratio, chance):
    def kept(_step, rng):
        return int((rng.random(GAMMA) < chance).cumprod().sum())

    traffic = Traffic(ratio, kept)

    made, spent = traffic.run(8000)

    assert traffic.switched == []
    assert made / spent > 1


@pytest.mark.parametrize("chance", [0.9, 0.95])
def test_no_slot_drafts_at_the_cost_of_the_others(chance):
    """One that drafts makes a step 2.9 times as long: it gains 3 tokens, the others lose 13.

    Slots do not fall back in the same step, so that one of them is the last.
    """

    def kept(_step, rng):
        return int((rng.random(GAMMA) < chance).cumprod().sum())

    traffic = Traffic(lambda drafting: 2.5 + 0.4 * drafting, kept, slots=8)
    traffic.run(600)

    made, spent = traffic.run(2000)

    assert set(traffic.guard.state()["slots"]) == {PLAIN}
    assert made / spent >= 0.95


def test_drafts_that_pay_for_all_stay_where_a_few_replies_gain_nothing():
    """Two of eight slots are dropped; what the others gain is more than what all of them lose."""
    traffic = Traffic(2.0, lambda _s, _r: GAMMA, slots=8)
    traffic.run(100)
    for slot in list(traffic.replies.values())[:2]:
        slot.observe = lambda drafted, _kept, observe=slot.observe: observe(drafted, 0)

    made, spent = traffic.run(2000)

    assert sorted(traffic.guard.state()["slots"]) == [PLAIN] * 2 + [SPECULATING] * 6
    assert made / spent > 1.8


def test_drafts_that_pay_but_for_the_reading_of_prompts_are_dropped():
    """A step gives 3 tokens for 2 and a prompt takes 9: 15 tokens cost 19, and 150 cost 109."""
    short = Traffic(2.0, lambda _s, _r: 2, slots=1, tokens=15, reading=9.0)
    long = Traffic(2.0, lambda _s, _r: 2, slots=1, tokens=150, reading=9.0)
    for traffic in (short, long):
        traffic.run(1000)

    assert short.guard.state()["slots"] == [PLAIN]
    assert not short.guard.is_drafting
    assert short.guard.costs.ratio(1) > 3
    assert long.switched == []
    assert long.guard.is_drafting
    made, spent = short.run(1000)
    assert made / spent >= 0.95


def test_drafts_that_pay_again_are_used_again():
    traffic = Traffic(1.6, useless)
    traffic.run(1500)
    assert set(traffic.guard.state()["slots"]) == {PLAIN}
    traffic.kept = lambda _s, _r: GAMMA

    traffic.run(8192 * 2)

    assert set(traffic.guard.state()["slots"]) == {SPECULATING}
    made, spent = traffic.run(200)
    assert made / spent > 2.5


def test_a_guard_that_is_switched_off_by_mistake_is_seen(monkeypatch):
    monkeypatch.setattr(guard_module.Slot, "_watch", lambda *_: None)
    traffic = Traffic(3.0, useless)
    traffic.run(200)

    made, spent = traffic.run(1000)

    assert made / spent < 0.5


def test_a_switch_is_told_counted_and_logged(caplog):
    traffic = Traffic(2.0, useless, slots=1, tokens=10**9)

    with caplog.at_level(logging.WARNING, "specdecode.serving"):
        traffic.run(120)

    (request,) = traffic.replies
    (told,) = traffic.guard.switches_of(request)
    assert told.startswith("plain after token ")
    assert "costs 2.00 plain steps" in told
    assert traffic.switched == [PLAIN]
    assert "slot 0: plain from here on" in caplog.text
    traffic.guard.forget(request)
    after = new_request()
    traffic.guard.lengths_of(after)
    assert traffic.guard.switches_of(after)[0].startswith("plain from the first token")


def test_costs_are_kept_apart_by_size_and_go_by_the_median():
    costs = MeasuredCosts()
    for seconds in (1.0, 1.0, 50.0):
        costs.plain(3, seconds)
        costs.drafted(4, 2 * seconds)
    assert costs.ratio(3) == costs.ratio(4) == 2
    assert costs.ratio(1) is costs.ratio(5) is None
    assert costs.lacks_plain(1)
    assert not costs.lacks_plain(4)


class Hasty:
    """Alarms at the first loss: the decision hangs on the last step as much as it can."""

    def __init__(self):
        self.n, self.alarm_at = 0, None

    def update(self, values):
        self.n += 1
        if values[0] < 0.5:
            self.alarm_at = self.n


class Guarded:
    """In place of an engine: one whose drafting is decided by a guard."""

    def __init__(self, tool):
        self.tool = tool

    def generate(self, prompts, params):
        guard = AcceptanceGuard(self.tool.num_speculative_tokens)
        for _ in range(3):
            guard.plain_cost(len(prompts), 1.0)
            guard.drafted(1)
            guard.stepped(len(prompts), 1.5)
        requests = make_requests(self.tool.target, prompts, params)
        batch = self.tool.open(slots=len(requests), lengths=guard.lengths_of)
        batch.join(requests)
        while batch.requests:
            batch.step()
            guard.stepped(len(prompts), 1.5)
        self.switches = [s for r in requests for s in guard.switches_of(r)]
        return [finished(r, self.tool.num_speculative_tokens, trace=False) for r in requests]


@pytest.mark.parametrize("rule", ["token", "block", "match"])
@pytest.mark.parametrize("drafter", ["shared-cache", "own-cache"])
def test_the_law_of_replies_is_plain_decodings_whenever_it_switches(monkeypatch, rule, drafter):
    monkeypatch.setattr(guard_module, "_detector", Hasty)
    monkeypatch.setattr(guard_module, "_SHORTEST_PAUSE", 1)
    monkeypatch.setattr(guard_module, "PROBE_SHARE", 2.0)
    monkeypatch.setattr(guard_module, "PROBE_STEPS", 1)
    params = SamplingParams(max_tokens=5)
    prompt = [0, 1, 2]
    target = TableNetwork(1, vocabulary=2, dtype=torch.float64)
    model = ToyModel(target, vocab_size=2)
    tool = Guarded(Engine(model, toy_drafters(2)[drafter](), rule, 2))

    law = RaggedExplorer(monkeypatch, rule).law(tool, [t % 2 for t in prompt], params)

    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    plain = plain_law(target, [t % 2 for t in prompt], params)
    assert total_variation(law, plain) <= 1e-12
    assert tool.switches


def test_timing_a_plain_step_changes_no_reply():
    def reply(timed):
        model = ToyModel(TableNetwork(1, dtype=torch.float64))
        drafter = SelfDrafter("self", TableNetwork(2, dtype=torch.float64))
        tool = Engine(model, drafter, "block", 3)
        requests = make_requests(model, [[0, 1], [2]], SamplingParams(max_tokens=20, seed=3))
        batch = tool.open(slots=2)
        batch.join(requests)
        while batch.requests:
            if timed:
                assert batch.time_plain_step() > 0
            batch.step()
        return [r.output for r in requests]

    assert reply(timed=True) == reply(timed=False)


class Useless(SelfDrafter):
    """Drafts the least likely token, and takes its time."""

    def propose(self, contexts, wanted, sample):
        def worst(logits, drawn, index):
            return sample(-100 * logits, drawn, index)

        if max(wanted):
            time.sleep(0.05)
        return super().propose(contexts, wanted, worst)


def test_a_server_with_a_useless_draft_goes_on_without_it(engine_folder, monkeypatch):
    engine = tiny_engine(engine_folder)
    engine.drafter = Useless("useless", engine.drafter.network)
    read = []

    def start(batch, requests, *, draft_reads=True):
        read.extend([draft_reads] * len(requests))
        started(batch, requests, draft_reads=draft_reads)

    started = RunningBatch.start
    monkeypatch.setattr(RunningBatch, "start", start)
    with serving(engine, slots=1) as server:
        answer = post(server, "/v1/completions", **{**ASK, "max_tokens": 150}).json()
        after = post(server, "/v1/completions", **ASK).json()

        text = httpx.get(server.url + "/metrics", timeout=60).text
        info = httpx.get(server.url + "/server_info", timeout=60).json()

    told = answer["metrics"]["acceptance_guard"]
    assert read == [True, False]
    assert told["switches"][0].startswith("plain after token")
    assert told["plain_steps"] > 50
    assert after["metrics"]["speculative_decoding"] is None
    assert info["acceptance_guard"]["slots"] == [PLAIN]
    assert info["acceptance_guard"]["cost_ratio"] > 1
    assert 'specdecode:guard_switches_total{engine="0",model_name="tiny",to="plain"} 1.0' in text
