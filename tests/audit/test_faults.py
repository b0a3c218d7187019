"""Every planted fault is planted where it says, and bends the law; the right engine does not."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode import Engine, SamplingParams
from specdecode.audit.faults import FAULTS, Fault, find_fault, plant
from specdecode.audit.faults.distance import Tree, all_blocks, distance, step_law, trees
from specdecode.audit.faults.parts import CORRECT
from specdecode.audit.faults.stale import stale_distance
from specdecode.audit.faults.target_faults import TargetFault
from specdecode.decoding.scoring import teacher_forced
from specdecode.errors import ConfigError
from specdecode.models import load_model
from specdecode.verification import RULES, Coins
from tests.audit import models

VOCAB, GAMMA = 5, 2
PROMPT = [1, 2, 3]
PENALISED = {"presence_penalty": 1.5}
ENUMERATED = [name for name in FAULTS if name != "stale-cache"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "VOCAB", VOCAB)
        target = models.tiny_llama(tmp_path_factory.mktemp("target"))
    network = copy.deepcopy(target.module)
    generator = torch.Generator().manual_seed(1)
    for weights in network.parameters():  # a draft that is right often, and often wrong
        if weights.dim() > 1:
            noise = torch.randn(weights.shape, generator=generator)
            weights.data.add_(0.3 * weights.std() * noise)
    folder = tmp_path_factory.mktemp("draft")
    network.save_pretrained(folder)
    return target, load_model(folder, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def logits(pair):
    target, draft = pair

    def of(context, blocks):
        replies = [[*block, 0] for block in blocks.tolist()]
        by_target = teacher_forced(target, [(context, reply) for reply in replies])
        by_draft = teacher_forced(draft, [(context, reply[:-1]) for reply in replies])
        return (
            torch.stack([rows for _, rows in by_target]),
            torch.stack([rows for _, rows in by_draft]),
        )

    return of


@pytest.fixture(scope="module")
def replies(pair, logits):
    """Likely ones, which filters leave possible."""
    params = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
    results = Engine.load(pair[0]).generate([PROMPT, [4, 3]], params)
    return [
        trees(logits, list(r.prompt_token_ids), list(r.token_ids), VOCAB, GAMMA) for r in results
    ]


def speculative(pair, verification):
    target, draft = pair
    return Engine.load(target, draft.path, verification=verification, num_speculative_tokens=GAMMA)


class TestCatalogue:
    def test_it_has_faults_of_every_side(self):
        assert len(FAULTS) >= 12
        for side in ("rule", "draft", "target"):
            assert any(getattr(fault, side) is not None for fault in FAULTS.values())

    def test_every_fault_breaks_exactly_one_thing_and_says_what(self):
        for name, fault in FAULTS.items():
            sides = (fault.rule, fault.draft, fault.target)
            assert sum(side is not None for side in sides) == 1, name
            assert fault.name == name
            assert fault.breaks
            assert set(fault.fits) <= set(CORRECT)

    def test_an_unknown_name_is_answered_with_the_known_ones(self):
        with pytest.raises(ConfigError, match=r"no fault 'typo'.*residual-is-target"):
            find_fault("typo")


class TestParts:
    @settings(max_examples=40, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1), rule=st.sampled_from(sorted(CORRECT)))
    def test_put_together_rightly_they_are_the_rule_coin_by_coin(self, seed, rule):
        generator = torch.Generator().manual_seed(seed)
        draft = torch.rand(6, GAMMA, VOCAB, generator=generator, dtype=torch.float64)
        target = torch.rand(6, GAMMA + 1, VOCAB, generator=generator, dtype=torch.float64)
        draft, target = draft / draft.sum(-1, keepdim=True), target / target.sum(-1, keepdim=True)
        tokens = torch.randint(VOCAB, (6, GAMMA), generator=generator)
        coins = Coins(
            torch.rand(6, GAMMA, generator=generator, dtype=torch.float64),
            torch.rand(6, generator=generator, dtype=torch.float64),
        )

        own = CORRECT[rule](tokens, draft, target, coins)
        theirs = RULES[rule](tokens, draft, target, coins)

        assert own.num_accepted.tolist() == theirs.num_accepted.tolist()
        assert own.next_token.tolist() == theirs.next_token.tolist()


class TestDistance:
    @pytest.mark.parametrize("verification", ["token", "block"])
    @pytest.mark.parametrize("sampling", [{}, {"top_p": 0.8}, PENALISED])
    def test_a_right_engine_has_none(self, replies, verification, sampling):
        found = distance(None, verification, replies, SamplingParams(**sampling))

        assert found.mean < 2e-6  # rounding of float32 laws
        assert found.positions == 6

    @pytest.mark.parametrize("name", ENUMERATED)
    def test_every_fault_has_some(self, replies, name):
        fault = FAULTS[name]
        params = SamplingParams(**fault.sampling)

        assert max(distance(fault, rule, replies, params).mean for rule in fault.fits) > 1e-5

    def test_a_fault_of_a_known_size(self):
        """One draft token, p = (.5, .3, .2), q = (.3, .3, .4), drop below .35: 0.12."""
        p, q = torch.tensor([0.5, 0.3, 0.2]).log(), torch.tensor([0.3, 0.3, 0.4]).log()
        blocks = all_blocks(3, 1)
        tree = Tree([0], [0], blocks, p.expand(3, 2, 3), q.expand(3, 1, 3))
        fault = FAULTS["draft-cut-after-look"]

        found = distance(fault, "token", [[tree]], SamplingParams())

        assert found.mean == pytest.approx(0.12, abs=1e-6)

    def test_too_many_blocks_are_refused(self):
        with pytest.raises(ConfigError, match="too many to enumerate"):
            all_blocks(100, 5)

    def test_a_stale_cache_has_no_law_of_one_step(self, replies):
        with pytest.raises(ConfigError, match="depends on earlier steps"):
            distance(FAULTS["stale-cache"], "block", replies, SamplingParams())


class TestPlanted:
    @pytest.mark.parametrize(
        "name",
        [
            "typical-acceptance",
            "draft-greedy-stated-as-sampled",
            "draft-cut-after-look",
            "penalties-forget-draft",
        ],
    )
    def test_the_engine_writes_what_was_enumerated(self, pair, logits, name):
        """Two tokens after the first: they follow the enumerated law, and not the target's."""
        fault, count = FAULTS[name], 500
        params = SamplingParams(max_tokens=GAMMA + 3, ignore_eos=True, **fault.sampling)
        engine = plant(speculative(pair, fault.fits[0]), fault)
        prompts = [PROMPT] * count
        each = [params.model_copy(update={"seed": seed}) for seed in range(count)]
        found = torch.zeros(VOCAB, VOCAB, dtype=torch.float64)
        results = engine.generate(prompts, each)
        first = Counter(result.token_ids[0] for result in results).most_common(1)[0][0]
        for result in results:
            if result.token_ids[0] == first:
                found[result.token_ids[1], result.token_ids[2]] += 1

        expected = two_tokens(logits, fault, params, first)
        correct = two_tokens(logits, Fault("right", "nothing"), params, first)
        size = float(found.sum())
        assert size > 100
        gap = float((found / size - expected).abs().sum()) / 2
        assert gap < float((found / size - correct).abs().sum()) / 2
        # A multinomial of this size is off by this much on average, and hardly by twice as much.
        noise = float((expected * (1 - expected) / size).sqrt().sum()) / 2
        assert gap < 1.6 * noise

    def test_the_engine_it_was_made_from_stays_right(self, pair):
        engine = speculative(pair, "block")
        params = SamplingParams(max_tokens=60, seed=3, ignore_eos=True)
        before = engine.generate([PROMPT], params)[0].token_ids

        broken = (
            plant(engine, FAULTS["accepts-by-next-row"]).generate([PROMPT], params)[0].token_ids
        )

        assert engine.generate([PROMPT], params)[0].token_ids == before
        assert broken != before

    def test_rows_of_other_parameters_each_get_their_own_laws(self, pair):
        engine = plant(speculative(pair, "block"), FAULTS["penalties-forget-draft"])
        mixed = [
            SamplingParams(max_tokens=12, seed=1, ignore_eos=True, **PENALISED),
            SamplingParams(max_tokens=12, seed=2, ignore_eos=True, top_k=2),
        ]
        together = engine.generate([PROMPT, [4, 3]], mixed)
        alone = [
            engine.generate([prompt], params)[0]
            for prompt, params in zip([PROMPT, [4, 3]], mixed, strict=True)
        ]

        assert [r.token_ids for r in together] == [r.token_ids for r in alone]

    def test_plain_decoding_has_nothing_to_break(self, pair):
        with pytest.raises(ConfigError, match="needs a draft"):
            plant(Engine.load(pair[0]), FAULTS["residual-is-target"])

    def test_a_rule_that_it_does_not_fit_is_refused(self, pair):
        with pytest.raises(ConfigError, match="it fits: block"):
            plant(speculative(pair, "token"), FAULTS["residual-unscaled"])


class TestStaleCache:
    def test_it_bends_the_laws_and_a_right_cache_does_not(self, pair):
        params = SamplingParams(max_tokens=16, ignore_eos=True)
        prompts = [[1 + n % 4, 2, 3] for n in range(8)]
        right = Fault("right", "nothing", target=TargetFault())
        stale, fresh = (
            stale_distance(plant(speculative(pair, "block"), fault), prompts, params)
            for fault in (FAULTS["stale-cache"], right)
        )

        assert fresh.mean < 1e-5
        assert stale.mean > 0.02


def two_tokens(logits, fault, params, first):
    """P(second, third token) after the first one, over one step or two."""
    parts = fault.parts(fault.fits[0])

    def law(context):
        blocks = all_blocks(VOCAB, GAMMA)
        tree = Tree(context, PROMPT, blocks, *logits(context, blocks))
        return step_law(parts, tree, params, fault.draft, fault.target)

    begun = law([*PROMPT, first])
    _, ends = begun.emits([])
    rows = []
    for token in range(VOCAB):
        going_on, _ = begun.emits([token])
        anew, _ = law([*PROMPT, first, token]).emits([])
        rows.append(going_on + ends[token] * anew)
    return torch.stack(rows)
