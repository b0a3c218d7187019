"""The engine's replies follow the target's law: sampled on toy models whose law is known exactly.

The seeds are fixed, so a test either always passes or always fails; its threshold is a false-alarm
probability of 1e-4 had they been chosen at random, and the planted faults show what it can see.
"""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from scipy.stats import chisquare

from specdecode import Engine, SamplingParams
from specdecode.drafting.cascade import CascadeDrafter
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.drafting.suffix import SuffixDrafter
from specdecode.models.sub_vocabulary import SubVocabularyNetwork
from specdecode.verification import token_verification
from tests.decoding.toys import TableNetwork, ToyModel, V, joint_law

PROMPT = [0, 1, 2, 0, 1]
LENGTH = 4
RUNS = 4000


def drafters():
    draft = TableNetwork(seed=2)
    return {
        "none": None,
        "shared-cache": SelfDrafter("self", draft),
        "own-cache": ModelDrafter("model", draft, max_context=64),
        "short-context": ModelDrafter("model", draft, max_context=7),
        "lookup": PromptLookupDrafter(V, torch.device("cpu"), shortest=1),
        "suffix": SuffixDrafter(V, torch.device("cpu"), shortest=1, factor=2),
        "part-of-the-vocabulary": SelfDrafter("self", SubVocabularyNetwork(draft, [2, 0], V, V)),
        "cascade": CascadeDrafter(
            "c",
            ModelDrafter("b", TableNetwork(seed=3), max_context=64),
            SelfDrafter("m", draft),
            rule=token_verification,
        ),
        "cascade-below-own-cache": CascadeDrafter(
            "c",
            SelfDrafter("b", SubVocabularyNetwork(TableNetwork(seed=3), [0, 2], V, V)),
            ModelDrafter("m", draft, max_context=64),
        ),
    }


def p_value(engine: Engine, params: SamplingParams, law: dict[tuple, float]) -> float:
    each = [params.model_copy(update={"seed": seed}) for seed in range(RUNS)]
    results = engine.generate([PROMPT] * RUNS, each)
    counts = Counter(r.token_ids for r in results)
    assert sum(counts.values()) == RUNS
    observed = [counts[reply] for reply in law]
    return float(chisquare(observed, [RUNS * p for p in law.values()]).pvalue)


@pytest.mark.parametrize("verification", ["token", "block", "match"])
@pytest.mark.parametrize("drafter", drafters())
@pytest.mark.parametrize("gamma", [1, 3])
def test_joint_law_of_replies_is_the_targets(verification, drafter, gamma):
    target = TableNetwork(seed=1)
    engine = Engine(ToyModel(target), drafters()[drafter], verification, gamma)

    found = p_value(engine, SamplingParams(max_tokens=LENGTH), joint_law(target, PROMPT, LENGTH))

    assert found > 1e-4


class StaleCacheNetwork(TableNetwork):
    """Planted fault: reads the token before from one slot too early."""

    def forward(self, tokens, starts, cache, select=None):
        logits = super().forward(tokens, starts, cache, select)
        return logits.roll(1, dims=0) if tokens.shape[0] > 1 else logits


def test_a_network_that_mixes_up_rows_is_seen():
    target = TableNetwork(seed=1)
    broken = StaleCacheNetwork(seed=1)
    engine = Engine(ToyModel(broken), SelfDrafter("self", TableNetwork(seed=2)), "block", 3)

    found = p_value(engine, SamplingParams(max_tokens=LENGTH), joint_law(target, PROMPT, LENGTH))

    assert found < 1e-4


class DishonestDrafter(SelfDrafter):
    """Planted fault: declares a flatter law than it draws from."""

    def propose(self, contexts, wanted, sample):
        proposal = super().propose(contexts, wanted, sample)
        flat = proposal.probs.sqrt()
        flat /= flat.sum(-1, keepdim=True)
        return type(proposal)(proposal.tokens, flat, proposal.lengths)


@pytest.mark.parametrize("verification", ["token", "block"])
def test_a_drafter_that_declares_another_law_is_seen(verification):
    target = TableNetwork(seed=1)
    drafter = DishonestDrafter("self", TableNetwork(seed=2))
    engine = Engine(ToyModel(target), drafter, verification, 3)

    found = p_value(engine, SamplingParams(max_tokens=LENGTH), joint_law(target, PROMPT, LENGTH))

    assert found < 1e-4


@pytest.mark.parametrize("verification", ["token", "block"])
def test_sharing_acceptance_and_draft_coins_is_seen(verification, monkeypatch):
    from specdecode.decoding import loop
    from specdecode.decoding.coins import Purpose

    honest = loop._draw

    def shared(requests, purpose, count):
        return honest(requests, Purpose.DRAFT if purpose == Purpose.ACCEPT else purpose, count)

    monkeypatch.setattr(loop, "_draw", shared)
    target = TableNetwork(seed=1)
    drafter = SelfDrafter("self", TableNetwork(seed=2))
    engine = Engine(ToyModel(target), drafter, verification, 3)

    found = p_value(engine, SamplingParams(max_tokens=LENGTH), joint_law(target, PROMPT, LENGTH))

    assert found < 1e-4


def test_block_verification_keeps_more_than_token_verification():
    target = TableNetwork(seed=1)
    params = [SamplingParams(max_tokens=40, seed=seed) for seed in range(400)]
    lengths = {}
    for rule in ("token", "block"):
        engine = Engine(ToyModel(target), SelfDrafter("self", TableNetwork(seed=2)), rule, 6)
        results = engine.generate([PROMPT] * 400, params)
        steps = sum(r.acceptance.steps for r in results)
        lengths[rule] = 1 + sum(r.acceptance.accepted for r in results) / steps

    assert lengths["block"] > lengths["token"]
