"""Every sampling parameter x every rule x every drafter, step by step against plain decoding.

Real engine runs are recorded at the rule's own door and checked, per verification and row:

(a) each target row is the law plain decoding would use at that very prefix, computed on its own by
    stepwise scoring and `distributions` with that prefix as its history;
(b) each draft token is the inverse-CDF draw of the law declared for it, with a draft coin of that
    step, and the declared row is a law;
(c) what enters the reply is what the rule says (its reference in plain Python), cut where plain
    decoding would cut: end token, stop string, limit, inside an accepted block too;
(d) all coins are those of their purpose, step and row, and no two are the same number.

Given (a), (b) and (d) the input of a rule is what its losslessness is proven for (exactly, by
enumeration, in tests/verification), so by (c) the reply has plain decoding's law, for every value
the coins can take. test_exact_law.py checks that conclusion end to end on a smaller model.

A drafter, a rule or a parameter is one line of a table.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding import engine as engine_module
from specdecode.decoding import loop
from specdecode.decoding.coins import CoinStream, Purpose
from specdecode.decoding.distributions import distributions
from specdecode.decoding.scoring import stepwise
from specdecode.models import load_model
from tests.decoding.drafters import toy_drafters
from tests.decoding.toys import TableNetwork, ToyModel
from tests.tiny_models import EOS, write_tiny_model
from tests.verification.reference import REFERENCE, pick

V, GAMMA = 7, 3
RULES = ("token", "block", "match", "greedy-block")
MODIFIES = frozenset({"greedy-block"})
"""Rules that judge by a target that earlier blocks modified; the modification has tests itself."""
OWN_COINS = frozenset({"cascade", "cascade:prompt-lookup,self-int4"})
"""Drafters whose tokens other coins decide than the draft coins of the step; likewise."""
DRAFTERS = toy_drafters(V)
SPECS = (
    "self-int4",
    "self-int8",
    "early-exit:1",
    "early-exit:2",
    "prompt-lookup",
    "suffix",
    "model",
    "cascade:prompt-lookup,self-int4",
)
LAWS = {
    "bare": {},
    "temperature low": {"temperature": 0.3},
    "temperature high": {"temperature": 1.9},
    "greedy": {"temperature": 0},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.6},
    "min_p": {"min_p": 0.2},
    "repetition": {"repetition_penalty": 1.7},
    "presence": {"presence_penalty": 1.2},
    "frequency": {"frequency_penalty": 0.9},
    "logit_bias": {"logit_bias": {2: 2.5, 4: -100.0}},
    "greedy with history": {"temperature": 0, "repetition_penalty": 1.4, "logit_bias": {3: 1.0}},
    "combined": {
        "temperature": 0.8,
        "top_k": 5,
        "top_p": 0.95,
        "min_p": 0.05,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.2,
        "logit_bias": {1: 0.5},
    },
}
ENDS = {
    "stop string": {"stop": ("bc", "dad", "ee")},
    "end token": {"ignore_eos": False},
    "both, with history": {"ignore_eos": False, "stop": ("ab",), "frequency_penalty": 0.4},
    "one token": {"max_tokens": 1},
    "two tokens": {"max_tokens": 2},
    "limit in a block": {"max_tokens": 6, "temperature": 0.2},
    "several replies": {"n": 3},
}
CELLS = LAWS | ENDS
PROMPTS = [[0, 1, 2, 0, 1], [3, 5], [6]]
NO_LAW_EVERYWHERE = frozenset({"lookup", "prompt-lookup", "suffix", *OWN_COINS})
"""Drafters that the engine refuses together with a rule in `MODIFIES`, which needs their laws."""


def combinations(drafters):
    """(drafter, rule) of every pair that an engine takes."""
    return [
        (drafter, rule)
        for drafter, rule in itertools.product(drafters, RULES)
        if not (drafter in NO_LAW_EVERYWHERE and rule in MODIFIES)
    ]


class Letters:
    """A tokenizer of one letter a token."""

    def decode(self, ids, *, skip_special_tokens):
        assert skip_special_tokens
        return "".join("abcdefg"[i] for i in ids)


@dataclass(frozen=True)
class Verified:
    """One row of one verification, as the rule was asked and as it answered."""

    step: int
    request: object
    prefix: tuple[int, ...]
    tokens: list[int]
    q: torch.Tensor  # [length, V]
    p: torch.Tensor  # [length + 1, V], the target's own law
    judged: torch.Tensor  # [length + 1, V], what the rule was given as the target
    accept: list[float]
    resample: float
    outcome: tuple[int, int]


def recorded(monkeypatch, tool, prompts, params) -> tuple[list, list[Verified]]:
    """Run the engine; return its results and every row its rule judged, in order."""
    rows: list[Verified] = []
    asked = {}
    rule, verify_block = engine_module.RULES[tool.verification], loop.verify_block

    def spy(tokens, q, p, coins, lengths=None, **options):
        outcome = rule(tokens, q, p, coins, lengths, **options)
        asked["last"] = (tokens, q, p, coins, lengths, outcome)
        return outcome

    def with_contexts(batch, proposal, target_laws, coins):
        answer = verify_block(batch, proposal, target_laws, coins)
        tokens, q, p, coins, lengths, outcome = asked.pop("last")
        for row, (request, length) in enumerate(zip(batch.requests, lengths.tolist(), strict=True)):
            rows.append(
                Verified(
                    step=request.step,
                    request=request,
                    prefix=tuple(request.tokens),
                    tokens=tokens[row, :length].tolist(),
                    q=q[row, :length].clone(),
                    p=target_laws[row, : length + 1].clone(),
                    judged=p[row, : length + 1].clone(),
                    accept=coins.accept[row, :length].tolist(),
                    resample=float(coins.resample[row]),
                    outcome=(int(outcome.num_accepted[row]), int(outcome.next_token[row])),
                )
            )
        return answer

    with monkeypatch.context() as patch:
        patch.setitem(engine_module.RULES, tool.verification, spy)
        patch.setattr(loop, "verify_block", with_contexts)
        return tool.generate(prompts, params), rows


def plain_laws(network, prompt, kept, ahead, params) -> torch.Tensor:
    """Plain decoding's laws `[len(ahead) + 1, V]` after the kept tokens and 0, 1, … of `ahead`."""
    prefix = [*prompt, *kept]
    logits = stepwise(network, (prefix, [*ahead, 0]))  # the last one is not fed
    contexts = [[*prefix, *ahead[:t]] for t in range(len(ahead) + 1)]
    rows = zip(logits, contexts, strict=True)
    # A row at a time, as plain decoding does it.
    return torch.cat([distributions(r[None], params, [c], len(prompt)) for r, c in rows])


def cut(model, tokens, params):
    """Where plain decoding ends: (reply, finish reason)."""
    for end in range(1, len(tokens) + 1):
        reply = tokens[:end]
        if not params.ignore_eos and reply[-1] in model.eos_token_ids:
            return reply, "stop"
        text = model.tokenizer.decode(reply, skip_special_tokens=True)
        if any(s in text for s in params.stop):
            return reply, "stop"
        if end == params.max_tokens:
            return reply, "length"
    raise AssertionError("the recorded tokens end before the reply does")


def check(model, tool, result, rows: list[Verified], params, *, tolerance) -> list[float]:
    """Check one reply; return the coins that decided it."""
    prompt = list(result.prompt_token_ids)
    stream = CoinStream(result.seed, prompt, result.sample_index)
    by_position = tool.verification == "match"

    def coins(purpose, index, count=1):
        return stream.draw(purpose, index, count).tolist()

    def position_coins(first, count):
        return [coins(Purpose.TARGET, first + i)[0] for i in range(count)]

    first = plain_laws(model.network, prompt, [], [], params)[0].tolist()
    coin = position_coins(len(prompt), 1) if by_position else coins(Purpose.RESAMPLE, 0)
    tokens, used = [pick(first, coin[0])], coin
    for row in rows:
        assert list(row.prefix) == prompt + tokens
        length = len(row.tokens)
        # (a)
        laws = plain_laws(model.network, prompt, tokens, row.tokens, params).to(row.p.dtype)
        torch.testing.assert_close(row.p, laws, rtol=0, atol=tolerance)
        # (b)
        noise = [] if tool.drafter.name in OWN_COINS else coins(Purpose.DRAFT, row.step, GAMMA)
        assert bool((row.q >= 0).all())
        torch.testing.assert_close(
            row.q.sum(-1), torch.ones(length, dtype=row.q.dtype), rtol=0, atol=tolerance
        )
        for token, q, coin in zip(row.tokens, row.q.tolist(), noise, strict=False):
            assert token == pick(q, coin)
        # (d)
        if by_position:
            *accept, resample = position_coins(len(row.prefix), length + 1)
            used = used + noise
        else:
            accept = coins(Purpose.ACCEPT, row.step, max(length, 1))[:length]
            resample = coins(Purpose.RESAMPLE, row.step)[0]
            used = used + noise + accept + [resample]
        assert (row.accept, row.resample) == (accept, resample)
        # (c)
        if tool.verification not in MODIFIES:
            assert torch.equal(row.judged, row.p)
        judge = REFERENCE[tool.verification]
        laws = row.q.tolist(), row.judged.tolist()
        assert row.outcome == judge(row.tokens, *laws, accept, resample)
        tokens = tokens + row.tokens[: row.outcome[0]] + [row.outcome[1]]
    if by_position:
        used = used + position_coins(len(prompt) + 1, len(tokens) - 1)
    reply, reason = cut(model, tokens, params)
    assert (list(result.token_ids), result.finish_reason) == (reply, reason)
    if rows:  # not a step too many
        kept = len(rows[-1].prefix) - len(prompt)
        assert kept < len(reply)
    return used


def check_all(monkeypatch, tool, prompts, params, *, tolerance):
    """Run, check every reply, and check that no coin was used for two things."""
    model = tool.target
    results, rows = recorded(monkeypatch, tool, prompts, params)
    each = [params] * len(prompts) if isinstance(params, SamplingParams) else params
    expanded = [p for p in each for _ in range(p.n)]
    of = {}
    for row in rows:
        key = (tuple(row.request.prompt), row.request.seed, row.request.sample_index)
        of.setdefault(key, []).append(row)
    used = []
    for result, p in zip(results, expanded, strict=True):
        key = (result.prompt_token_ids, result.seed, result.sample_index)
        used += check(model, tool, result, of.get(key, []), p, tolerance=tolerance)
    assert len(set(used)) == len(used)
    return results, rows


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("drafter", "rule"), combinations(DRAFTERS))
def test_a_step_is_what_plain_decoding_would_do(monkeypatch, drafter, rule, cell):
    model = ToyModel(
        TableNetwork(1, vocabulary=V, dtype=torch.float64),
        tokenizer=Letters(),
        vocab_size=V,
        eos_token_ids=frozenset({4}),
    )
    params = SamplingParams(**{"max_tokens": 12, "seed": 11, "ignore_eos": True, **CELLS[cell]})
    tool = Engine(model, DRAFTERS[drafter](), rule, GAMMA)

    results, rows = check_all(monkeypatch, tool, PROMPTS, params, tolerance=1e-12)

    if params.max_tokens > 2 and drafter != "short-context":
        assert any(row.tokens for row in rows)
    if params.is_greedy or rule == "match":
        plain = Engine(model, None, rule, GAMMA).generate(PROMPTS, params)
        assert [r.token_ids for r in results] == [r.token_ids for r in plain]


@pytest.mark.parametrize("rule", RULES)
def test_the_table_reaches_what_it_is_about(monkeypatch, rule):
    """Full blocks, rejections, and each kind of end inside an accepted block did occur."""
    kept, ends = set(), set()
    model = ToyModel(
        TableNetwork(1, vocabulary=V, dtype=torch.float64),
        tokenizer=Letters(),
        vocab_size=V,
        eos_token_ids=frozenset({4}),
    )
    for cell in CELLS:
        params = SamplingParams(**{"max_tokens": 12, "seed": 11, "ignore_eos": True, **CELLS[cell]})
        tool = Engine(model, DRAFTERS["shared-cache"](), rule, GAMMA)
        results, rows = recorded(monkeypatch, tool, PROMPTS, params)
        kept |= {row.outcome[0] for row in rows}
        for result in results:
            own = [row for row in rows if row.request.prompt == list(result.prompt_token_ids)]
            if own and params.n == 1:
                end = len(own[-1].prefix) + own[-1].outcome[0]
                inside = len(result.prompt_token_ids) + len(result.token_ids) <= end
                ends.add((result.finish_reason, inside))
    assert kept == {0, 1, 2, 3}
    assert ends >= {("length", False), ("stop", True), ("stop", False)}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    base = tmp_path_factory.mktemp("table")
    folders = [write_tiny_model(base / str(seed), "llama", seed=seed) for seed in (1, 2)]
    return load_model(folders[0], device="cpu", dtype="float64"), str(folders[1])


@pytest.mark.parametrize(("spec", "rule"), combinations(SPECS))
def test_every_registered_drafter_on_a_transformer(monkeypatch, tiny, spec, rule):
    """One batch holds every cell, so that parameters of neighbours would be seen to leak."""
    model, other = tiny
    tool = Engine.load(
        model, other if spec == "model" else spec, verification=rule, num_speculative_tokens=GAMMA
    )
    words = {
        "stop string": {"stop": ("cat", "s o")},
        "end token": {"ignore_eos": False, "logit_bias": {EOS: 9.0}},
        "both, with history": {"ignore_eos": False, "stop": ("dog",), "frequency_penalty": 0.4},
    }
    cells = CELLS | words
    each = [
        SamplingParams(**{"max_tokens": 9, "seed": seed, "ignore_eos": True, **cell})
        for seed, cell in enumerate(cells.values())
    ]
    prompts = [[5, 6, 7, 5, 6], [3, 4], [9]] * len(each)

    # The network hands out float32 logits, and passes of different shapes differ by rounding.
    results, _ = check_all(monkeypatch, tool, prompts[: len(each)], each, tolerance=1e-5)

    assert any(result.finish_reason == "stop" for result in results)
