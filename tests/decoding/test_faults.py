"""Drafters that fail: the reply goes on, its law stays, and what happened is reported.

That the law stays is shown by enumeration in test_exact_law.py; here are the other promises.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding.faults import ENDS_ANYWHERE
from specdecode.drafting import Proposal
from specdecode.drafting.cascade import CascadeDrafter
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import EngineError, NumericalError
from specdecode.verification.exact import sequence_law, total_variation
from specdecode.verification.exact_rules import EXACT_RULES, modified_model
from tests.decoding.drafters import ChokesOnToken
from tests.decoding.toys import TableNetwork, ToyModel, V

PROMPTS = [[0, 1, 2, 0, 1], [2, 1], [1]]
PROMPT = PROMPTS[0]
RULES = sorted(ENDS_ANYWHERE)


class Faulty(SelfDrafter):
    """Fails in `where` at its `at`-th call, counted from 0."""

    def __init__(self, where: str, at: int = 0, error: Exception | None = None) -> None:
        super().__init__("faulty", TableNetwork(2))
        self.where, self.at, self.calls = where, at, Counter()
        self.error = error or RuntimeError("broken")

    def _reach(self, where: str) -> None:
        if where == self.where and self.calls[where] >= self.at:
            raise self.error
        self.calls[where] += 1

    def begin(self, batch, capacity, target_cache):
        self._reach("begin")
        super().begin(batch, capacity, target_cache)

    def propose(self, contexts, wanted, sample):
        self._reach("propose")
        return super().propose(contexts, wanted, sample)

    def keep_rows(self, rows):
        self._reach("keep_rows")
        super().keep_rows(rows)


def engine(drafter, rule="block", gamma=3) -> Engine:
    return Engine(ToyModel(TableNetwork(1)), drafter, rule, gamma)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("where", "at"), [("begin", 0), ("propose", 0), ("propose", 2), ("keep_rows", 0)]
)
def test_a_failing_drafter_leaves_plain_decoding_and_a_reason(rule, where, at):
    params = [SamplingParams(max_tokens=n, seed=4) for n in (5, 20, 20)]
    plain = engine(None).generate(PROMPTS, params)

    results = engine(Faulty(where, at), rule).generate(PROMPTS, params)

    assert [len(r.token_ids) for r in results] == [5, 20, 20]
    assert results[1].draft_failure == f"{where}: RuntimeError: broken"
    if where == "keep_rows":  # called when the first request leaves: that one saw no failure
        assert results[0].draft_failure is None
    if where == "begin":
        assert all(r.acceptance.drafted == 0 for r in results)
        assert all(r.acceptance.acceptance_rate is None for r in results)
    if rule == "match":
        assert [r.token_ids for r in results] == [r.token_ids for r in plain]


@pytest.mark.parametrize("rule", RULES)
def test_greedy_replies_stay_those_of_plain_decoding(rule):
    params = SamplingParams(max_tokens=20, temperature=0)
    plain = engine(None).generate(PROMPTS, params)

    for drafter in (Faulty("propose", 1), ChokesOnToken(plain[0].token_ids[3])):
        results = engine(drafter, rule).generate(PROMPTS, params)
        assert [r.token_ids for r in results] == [r.token_ids for r in plain]


def test_steps_until_the_failure_are_those_of_an_undisturbed_run():
    params = SamplingParams(max_tokens=30, seed=2, ignore_eos=True)
    whole = engine(Faulty("nowhere")).generate([PROMPT], params, trace=True)[0]

    cut = engine(Faulty("propose", 3)).generate([PROMPT], params, trace=True)[0]

    assert [s.emitted for s in cut.trace[:3]] == [s.emitted for s in whole.trace[:3]]
    assert all(s.draft_tokens == () for s in cut.trace[3:])
    assert cut.acceptance.drafted == sum(len(s.draft_tokens) for s in cut.trace[:3])
    assert cut.acceptance.accepted <= cut.acceptance.drafted


def test_after_a_failure_no_coin_decides_twice():
    params = SamplingParams(max_tokens=20, seed=2)
    result = engine(Faulty("propose", 2)).generate([PROMPT], params, trace=True)[0]

    coins = [c for s in result.trace for c in (*s.accept_coins, s.resample_coin)]
    assert len(set(coins)) == len(coins)


@cache
def model(seed: int, size: int):
    """Laws of small fractions, one a prefix."""
    generator = torch.Generator().manual_seed(seed)
    laws: dict[tuple, tuple] = {}

    def law(prefix):
        if prefix not in laws:
            weights = torch.randint(1, 7, (size,), generator=generator).tolist()
            laws[prefix] = tuple(Fraction(w, sum(weights)) for w in weights)
        return laws[prefix]

    return law


def ended_blocks(draft, gamma, ends, prefix=()):
    """Draft blocks with their probabilities, each ended after the first token `ends` names."""
    if len(prefix) == gamma or (prefix and ends(prefix)):
        yield prefix, Fraction(1)
        return
    for token, q in enumerate(draft(prefix)):
        for block, weight in ended_blocks(draft, gamma, ends, (*prefix, token)):
            yield block, q * weight


def distance(name: str, size: int, gamma: int) -> Fraction:
    """Total variation to the target of γ + 1 tokens, when blocks end at each token 1."""
    target, draft = model(1, size), model(2, size)
    law: dict[tuple, Fraction] = defaultdict(Fraction)
    for block, weight in ended_blocks(draft, gamma, lambda prefix: prefix[-1] == 1):
        q = [draft(block[:i]) for i in range(len(block))]
        p = [target(block[:i]) for i in range(len(block) + 1)]
        for (kept, token), share in EXACT_RULES[name](block, q, p).items():
            emitted = (*block[:kept], token)
            after = target
            if name == "greedy-block":
                after = modified_model(target, draft, len(block), (), emitted)
            for tail, rest in sequence_law(after, gamma + 1 - len(emitted), emitted).items():
                law[emitted + tail] += weight * share * rest
    return total_variation(law, sequence_law(target, gamma + 1))


@pytest.mark.parametrize(("size", "gamma"), [(2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_which_rules_bear_blocks_that_end_at_a_drawn_token(rule, size, gamma):
    """In fractions. Greedy block verification does not: hence the refusal below."""
    assert (distance(rule, size, gamma) == 0) == (rule in ENDS_ANYWHERE)


def test_a_shortened_block_is_refused_where_the_rule_cannot_bear_it(monkeypatch):
    tool = engine(ChokesOnToken(1))
    monkeypatch.setattr("specdecode.decoding.faults.ENDS_ANYWHERE", frozenset())
    with pytest.raises(EngineError, match=r"unfinished block.*verification 'block'"):
        tool.generate([PROMPT], SamplingParams(max_tokens=60, seed=1))


class ProposesTwice(SelfDrafter):
    """Draws a block, forgets it, and fails in the second."""

    def propose(self, contexts, wanted, sample):
        super().propose(contexts, wanted, sample)
        super().propose(contexts, wanted, sample)
        raise RuntimeError("late")


def test_draws_that_are_no_block_are_neither_kept_nor_dropped():
    tool = engine(ProposesTwice("twice", TableNetwork(2)))
    with pytest.raises(EngineError, match="not the beginning of one block"):
        tool.generate([PROMPT], SamplingParams(max_tokens=20, seed=1))


def spoiled(change):
    class Spoiled(SelfDrafter):
        def propose(self, contexts, wanted, sample):
            return change(super().propose(contexts, wanted, sample))

    return Spoiled("spoiled", TableNetwork(2))


def _with_nan(proposal: Proposal) -> Proposal:
    laws = proposal.probs.clone()
    laws[0, 0, 0] = float("nan")
    return Proposal(proposal.tokens, laws, proposal.lengths)


MALFORMED = {
    "flat tokens": lambda p: Proposal(p.tokens.flatten(), p.probs, p.lengths),
    "a row too few": lambda p: Proposal(p.tokens[:-1], p.probs[:-1], p.lengths[:-1]),
    "float tokens": lambda p: Proposal(p.tokens.double(), p.probs, p.lengths),
    "narrow laws": lambda p: Proposal(p.tokens, p.probs[..., :-1], p.lengths),
    "integer laws": lambda p: Proposal(p.tokens, p.probs.long(), p.lengths),
    "longer than wanted": lambda p: Proposal(
        p.tokens.repeat(1, 9), p.probs.repeat(1, 9, 1), [9 * n for n in p.lengths]
    ),
    "lengths beyond the block": lambda p: Proposal(p.tokens, p.probs, [n + 1 for n in p.lengths]),
    "negative length": lambda p: Proposal(p.tokens, p.probs, [-1 for _ in p.lengths]),
    "a length missing": lambda p: Proposal(p.tokens, p.probs, p.lengths[1:]),
    "token -1": lambda p: Proposal(p.tokens - V, p.probs, p.lengths),
    "token V": lambda p: Proposal(p.tokens + V, p.probs, p.lengths),
    "NaN law": _with_nan,
    "law of sum 2": lambda p: Proposal(p.tokens, p.probs * 2, p.lengths),
    "nothing at all": lambda _: None,
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_proposal_is_a_failure(change):
    params = SamplingParams(max_tokens=12, seed=1)
    plain = engine(None).generate(PROMPTS, params)

    results = engine(spoiled(change), "match").generate(PROMPTS, params)

    assert all(r.draft_failure.startswith("propose: ") for r in results)
    assert [r.token_ids for r in results] == [r.token_ids for r in plain]
    # The draws were sound, and are judged; only the drafter's account of them was not.
    assert results[0].acceptance.drafted == 3


def test_careless_padding_is_no_failure():
    def pad(proposal: Proposal) -> Proposal:
        tokens, laws = proposal.tokens.clone(), proposal.probs.clone()
        lengths = [max(0, n - 1) for n in proposal.lengths]
        for row, length in enumerate(lengths):
            tokens[row, length:], laws[row, length:] = -1, float("nan")
        return Proposal(tokens, laws, lengths)

    params = SamplingParams(max_tokens=12, seed=1)
    results = engine(spoiled(pad), "match").generate(PROMPTS, params)

    assert [r.draft_failure for r in results] == [None] * 3
    assert results[0].token_ids == engine(None).generate([PROMPT], params)[0].token_ids


def test_the_warning_comes_once_an_engine(caplog):
    tool = engine(Faulty("propose"))
    with caplog.at_level(logging.WARNING, "specdecode.decoding"):
        for _ in range(3):
            tool.generate(PROMPTS, SamplingParams(max_tokens=4, seed=1))

    assert len(caplog.records) == 1
    assert "drafter 'faulty' failed (propose: RuntimeError: broken)" in caplog.text


def test_the_next_batch_gets_its_drafter_back():
    drafter = Faulty("propose")
    tool = engine(drafter)
    assert tool.generate([PROMPT], SamplingParams(max_tokens=9, seed=1))[0].draft_failure
    drafter.where = "nowhere"

    result = tool.generate([PROMPT], SamplingParams(max_tokens=9, seed=1))[0]

    assert result.draft_failure is None
    assert result.acceptance.drafted > 0


def test_a_drafter_without_a_law_is_the_drafters_fault_a_target_without_one_is_not():
    class Broken(TableNetwork):
        def forward(self, tokens, starts, cache, select=None):
            if tokens.shape[1] == 1:
                raise NumericalError("the model produced NaN")
            return super().forward(tokens, starts, cache, select)

    params = SamplingParams(max_tokens=6, seed=1)
    drafts = engine(SelfDrafter("nan", Broken(2))).generate([PROMPT], params)[0]
    assert drafts.draft_failure == "propose: NumericalError: the model produced NaN"

    with pytest.raises(NumericalError):
        Engine(ToyModel(Broken(1)), None, "block", 3).generate([PROMPT], params)


def test_a_stream_goes_on_and_reports_the_failure():
    events = list(engine(Faulty("propose", 1)).stream(PROMPT, SamplingParams(max_tokens=9, seed=1)))
    assert events[-1].result.draft_failure == "propose: RuntimeError: broken"
    assert sum(len(e.token_ids) for e in events) == 9


def test_an_interrupt_is_no_fault_of_the_drafter():
    with pytest.raises(KeyboardInterrupt):
        engine(Faulty("propose", error=KeyboardInterrupt())).generate([PROMPT])


class FailsToScore(SelfDrafter):
    """A middle of a cascade that fails in its second turn, or in its first."""

    def __init__(self, turn: int) -> None:
        super().__init__("middle", TableNetwork(2))
        self.left = turn

    def score(self, contexts, drafted):
        if self.left == 0:
            raise RuntimeError("broken")
        self.left -= 1
        return super().score(contexts, drafted)


def test_a_cascade_that_fails_before_it_draws_is_left_out_and_after_it_stops():
    def tool(turn):
        bottom = PromptLookupDrafter(V, torch.device("cpu"), shortest=1)
        return engine(CascadeDrafter("cascade", bottom, FailsToScore(turn)), gamma=5)

    params = SamplingParams(max_tokens=20, seed=1)
    assert tool(0).generate([PROMPT], params)[0].draft_failure == "propose: RuntimeError: broken"
    with pytest.raises(EngineError, match="not the beginning of one block"):
        tool(1).generate([PROMPT], params)
