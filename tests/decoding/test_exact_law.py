"""The joint law of whole replies equals plain decoding's: every path enumerated, no sampling.

Three tokens, up to two drafted, four in a reply: a first token, a full block, what follows it, and
blocks that the end of the reply shortens. See `tests.decoding.reply_laws` for the method.
"""

from __future__ import annotations

import itertools

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.drafting import Proposal
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.verification.exact import total_variation
from tests.decoding.drafters import ChokesOnToken, toy_drafters
from tests.decoding.reply_laws import Explorer, plain_law
from tests.decoding.toys import TableNetwork, ToyModel, V

PROMPT = [0, 1, 2, 0, 1]
LENGTH = 4
RULES = ("token", "block", "match")


def network(seed: int) -> TableNetwork:
    return TableNetwork(seed, dtype=torch.float64)


# A cascade decides by coins within itself; tests/drafting/test_cascade.py enumerates those.
DRAFTERS = {name: make for name, make in toy_drafters().items() if name != "cascade"}
CELLS = {
    "bare": {},
    "filters": {"temperature": 0.6, "top_k": 2},
    "nucleus": {"temperature": 1.4, "top_p": 0.8, "logit_bias": {1: 0.7}},
    "min_p": {"min_p": 0.25},
    "history": {"repetition_penalty": 1.5, "presence_penalty": 0.6, "frequency_penalty": 0.8},
    "greedy": {"temperature": 0},
}


def exact(monkeypatch, drafter, rule, params, *, eos=(), together=4096):
    model = ToyModel(network(1), eos_token_ids=frozenset(eos))
    tool = Engine(model, drafter, rule, 2)
    return Explorer(monkeypatch, rule, together).law(tool, PROMPT, params)


@pytest.mark.parametrize(("drafter", "rule"), list(itertools.product(DRAFTERS, RULES)))
@pytest.mark.parametrize("cell", CELLS)
def test_the_law_of_replies_is_plain_decodings(monkeypatch, drafter, rule, cell):
    params = SamplingParams(max_tokens=LENGTH, **CELLS[cell])

    law = exact(monkeypatch, DRAFTERS[drafter](), rule, params)

    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert total_variation(law, plain_law(network(1), PROMPT, params)) <= 1e-12


@pytest.mark.parametrize("rule", RULES)
def test_replies_that_end_early_have_their_law_too(monkeypatch, rule):
    params = SamplingParams(max_tokens=LENGTH)

    law = exact(monkeypatch, DRAFTERS["shared-cache"](), rule, params, eos=[2])

    plain = plain_law(network(1), PROMPT, params, ends=lambda reply: reply[-1] == 2)
    assert {len(reply) for reply in law} == {1, 2, 3, 4}
    assert total_variation(law, plain) <= 1e-12


@pytest.mark.parametrize("token", range(V))
@pytest.mark.parametrize("rule", RULES)
def test_a_failure_that_depends_on_drawn_tokens_leaves_the_law(monkeypatch, rule, token):
    params = SamplingParams(max_tokens=LENGTH)

    law = exact(monkeypatch, ChokesOnToken(token), rule, params, together=1)

    assert total_variation(law, plain_law(network(1), PROMPT, params)) <= 1e-12


# Planted faults: what this method can see.


class Forgets(ChokesOnToken):
    """Hides its failure by proposing nothing, and so drops tokens for what they are."""

    def propose(self, contexts, wanted, sample):
        try:
            return super().propose(contexts, wanted, sample)
        except RuntimeError:
            empty = torch.zeros(len(contexts), 0)
            return Proposal(empty.long(), empty[..., None].expand(-1, -1, V), [0] * len(contexts))


class Flattens(SelfDrafter):
    """Declares another law than it draws from."""

    def propose(self, contexts, wanted, sample):
        proposal = super().propose(contexts, wanted, sample)
        flat = proposal.probs.sqrt()
        return Proposal(proposal.tokens, flat / flat.sum(-1, keepdim=True), proposal.lengths)


class Picks(SelfDrafter):
    """Shortens its block when it does not like its second token."""

    def propose(self, contexts, wanted, sample):
        proposal = super().propose(contexts, wanted, sample)
        if proposal.tokens.shape[1] < 2:
            return proposal
        disliked = (proposal.tokens[:, 1] == 0).tolist()
        lengths = [n - d for n, d in zip(proposal.lengths, disliked, strict=True)]
        return Proposal(proposal.tokens, proposal.probs, lengths)


FAULTS = {
    "drops what it drew": lambda: Forgets(1),
    "declares another law": lambda: Flattens("flat", network(2)),
    "drops a token it dislikes": lambda: Picks("picks", network(2)),
}


@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(monkeypatch, rule, fault):
    params = SamplingParams(max_tokens=LENGTH)
    together = 1 if fault == "drops what it drew" else 4096

    law = exact(monkeypatch, FAULTS[fault](), rule, params, together=together)

    assert total_variation(law, plain_law(network(1), PROMPT, params)) > 1e-3
