"""Cascades: the block follows the middle's law as if there were no bottom, and says so."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding.coins import CoinStream
from specdecode.decoding.draft_sampling import DraftSampler
from specdecode.decoding.request import Request
from specdecode.drafting import make_drafter
from specdecode.drafting.cascade import CascadeDrafter
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.registry import drafting_network, scoring_network
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.drafting.suffix import SuffixDrafter
from specdecode.errors import ConfigError
from specdecode.models import KVCache, load_model
from specdecode.verification import RULES
from specdecode.verification.exact_kernel import CELLS
from tests.decoding.toys import TableNetwork, V
from tests.drafting.samplers import Enumerated, MostLikely
from tests.paths import every_path
from tests.tiny_models import write_tiny_model

CPU = torch.device("cpu")
PROMPTS = [[5, 6, 7], [3, 4, 3, 4, 3, 4, 3], [9], [8, 2, 10, 11, 12, 8, 2, 10, 11]]


def toy(seed, **options):
    network = TableNetwork(seed, **options)
    network.table = network.table.double()
    return network


def read(cache, network, context):
    """What the target does before a block: it has processed all tokens but the last."""
    if len(context) > 1:
        network.forward(torch.tensor([context[:-1]]), [0], cache)


def enumerated_law(rule, make_bottom, make_middle, context, wanted):
    law, stated = defaultdict(float), {}
    for path in every_path():
        cache, coins = KVCache(1, 40), Enumerated(path)
        cascade = CascadeDrafter(
            "c",
            make_bottom(),
            make_middle(),
            rule=coins.rule(RULES[rule], CELLS[rule]),
            reach=2,
        )
        cascade.begin(1, 40, cache)
        read(cache, toy(1), context)
        proposal = cascade.propose([context], [wanted], coins)
        tokens = tuple(proposal.tokens[0].tolist())
        assert proposal.lengths == [wanted] == [len(tokens)]
        law[tokens] += path.weight
        stated[tokens] = proposal.probs[0].numpy()
    return law, stated


BOTTOMS = {
    "own-cache": lambda: ModelDrafter("b", toy(3), 64),
    "shared-cache": lambda: SelfDrafter("b", toy(3)),
    "lookup": lambda: PromptLookupDrafter(V, CPU, shortest=1),
    "suffix": lambda: SuffixDrafter(V, CPU, shortest=1, factor=3),
}
MIDDLES = {
    "own-cache": lambda: ModelDrafter("m", toy(2), 64),
    "shared-cache": lambda: SelfDrafter("m", toy(2)),
}


@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize("middle", MIDDLES)
@pytest.mark.parametrize("bottom", BOTTOMS)
def test_the_law_of_a_block_is_exactly_the_middles(rule, bottom, middle):
    context, wanted = [0, 1, 2, 0, 1], 3

    law, stated = enumerated_law(rule, BOTTOMS[bottom], MIDDLES[middle], context, wanted)

    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    network = toy(2)
    for tokens, probability in law.items():
        expected = 1.0
        for index, token in enumerate(tokens):
            row = network.law([*context, *tokens[:index]])
            assert abs(stated[tokens][index] - row).max() < 1e-12
            expected *= row[token]
        assert probability == pytest.approx(expected, rel=1e-9)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("cascade")
    return (
        write_tiny_model(base / "target", seed=1),
        write_tiny_model(base / "draft", seed=2),
    )


@pytest.fixture(scope="module")
def target(folders):
    return load_model(folders[0], device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def draft(folders):
    return load_model(folders[1], device="cpu", dtype="float64")


@pytest.mark.parametrize("gamma", [1, 3, 6])
@pytest.mark.parametrize("middle", ["shared-cache", "own-cache"])
@pytest.mark.parametrize("bottom", ["prompt-lookup", "suffix", "early-exit:1", "model"])
def test_the_target_in_the_middle_is_always_accepted(target, folders, bottom, middle, gamma):
    """State the middle keeps after its own partial acceptances must be that of the tokens kept."""
    below = make_drafter(str(folders[1]) if bottom == "model" else bottom, target)
    above = {
        "shared-cache": SelfDrafter("exact", target.network),
        "own-cache": ModelDrafter("exact", target.network, target.max_context),
    }[middle]
    engine = Engine(target, CascadeDrafter("c", below, above), "block", gamma)
    each = [
        SamplingParams(max_tokens=2 + steps * (gamma + 1), seed=1, ignore_eos=True, **law)
        for steps, law in [
            (8, {}),
            (3, {"temperature": 0.6, "top_p": 0.9}),
            (8, {"repetition_penalty": 1.4, "frequency_penalty": 0.3}),
            (5, {"temperature": 0}),
        ]
    ]

    together = engine.generate(PROMPTS, each)

    for result, params in zip(together, each, strict=True):
        assert result.acceptance.acceptance_rate == 1.0
        assert result.token_ids == engine.generate([result.prompt_token_ids], params)[0].token_ids


@pytest.mark.parametrize(
    "spec",
    ["cascade:early-exit:1,early-exit:2", "cascade:early-exit:2,MODEL", "cascade:MODEL,self-int4"],
)
def test_a_bottom_sees_the_tokens_of_the_block(target, folders, spec, monkeypatch):
    """A bottom over the target's cache lacks what a middle with its own cache has decided on."""
    engine = Engine.load(target, spec.replace("MODEL", str(folders[1])), num_speculative_tokens=7)
    cascade = engine.drafter
    assert isinstance(cascade, CascadeDrafter)
    seen = []
    ask = cascade._ask_bottom

    def spy(contexts, texts, most, below):
        proposal = ask(contexts, texts, most, below)
        for row, length in enumerate(proposal.lengths):
            if length:
                seen.append((texts[row], proposal.probs[row, 0]))
        return proposal

    monkeypatch.setattr(cascade, "_ask_bottom", spy)
    engine.generate(PROMPTS, SamplingParams(max_tokens=25, seed=2, ignore_eos=True))

    assert len(seen) > 30
    for text, law in seen:
        state = KVCache(1, 64)
        alone = cascade.bottom.network.forward(torch.tensor([text]), [0], state)[0, -1]
        torch.testing.assert_close(law, alone.softmax(-1))


@pytest.mark.parametrize("bottom", ["suffix", "early-exit:1"])
@pytest.mark.parametrize("middle", ["self-int4", "early-exit:2", "MODEL"])
def test_the_stated_laws_are_the_middles_own(target, draft, folders, bottom, middle):
    spec = f"cascade:{bottom},{middle}".replace("MODEL", str(folders[1]))
    drafter = make_drafter(spec, target)
    drafter.begin(len(PROMPTS), 64, cache := KVCache(len(PROMPTS), 64))
    params = SamplingParams(temperature=0.8, top_k=9, presence_penalty=0.4)
    batch = [Request(p, params, s, frozenset(), None, 40) for s, p in enumerate(PROMPTS)]
    for request in batch:
        request.output = [7]
    for row, request in enumerate(batch):
        state = KVCache(1, 64)
        target.network.forward(torch.tensor([request.prompt]), [0], state)
        cache.set_row(row, state.copy_row(0, len(request.prompt)))
    wanted = [6, 1, 0, 4]

    proposal = drafter.propose([r.tokens for r in batch], wanted, DraftSampler(batch, 1, CPU, 6))

    assert proposal.lengths == wanted
    network = make_drafter(middle.replace("MODEL", str(folders[1])), target).network
    for row, request in enumerate(batch):
        text, drafted = request.tokens, proposal.tokens[row, : wanted[row]]
        state = KVCache(1, 64)
        of_prompt = draft.network if middle == "MODEL" else target.network
        of_prompt.forward(torch.tensor([request.prompt]), [0], state)
        logits = network.forward(torch.tensor([[7, *drafted.tolist()]]), [len(text) - 1], state)
        laws = DraftSampler([request], 1, CPU, 6).laws(logits, drafted[None], 0)[0, :-1]
        torch.testing.assert_close(proposal.probs[row, : wanted[row]], laws)


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_state_after_any_rejection_equals_a_fresh_start(target, draft, kept):
    contexts = [[3, 4, 5], [6, 7, 8, 9, 10]]
    sample = MostLikely()
    sample.rows = 2

    def made():
        cascade = CascadeDrafter(
            "c",
            ModelDrafter("b", target.network, 256),
            ModelDrafter("m", draft.network, 256),
            reach=2,
        )
        cascade.begin(2, 60, KVCache(0, 0))
        return cascade

    used = made()
    first = used.propose(contexts, [3, 3], sample)
    longer = [
        c + row[:kept] + [11, 12] for c, row in zip(contexts, first.tokens.tolist(), strict=True)
    ]

    again, expected = (drafter.propose(longer, [3, 2], sample) for drafter in (used, made()))

    assert torch.equal(again.tokens, expected.tokens)
    torch.testing.assert_close(again.probs, expected.probs)


def test_no_coin_decides_twice(target, folders, monkeypatch):
    keys = []
    honest = CoinStream.draw

    def draw(self, purpose, index, count, part=0):
        keys.append((purpose, index, part))
        return honest(self, purpose, index, count, part)

    monkeypatch.setattr(CoinStream, "draw", draw)
    engine = Engine.load(target, f"cascade:{folders[1]},self-int4", num_speculative_tokens=7)

    engine.generate([PROMPTS[0]], SamplingParams(max_tokens=40, seed=2, ignore_eos=True))

    assert len(set(keys)) == len(keys)
    assert {part for *_, part in keys} >= {0, 1, 2}


def test_a_bottom_that_agrees_saves_the_middle_passes(target):
    calls = []

    class Counted(SelfDrafter):
        def score(self, contexts, drafted):
            calls.append(drafted.shape[1])
            return super().score(contexts, drafted)

    below = ModelDrafter("b", target.network, 256)
    cascade = CascadeDrafter("c", below, Counted("m", target.network), reach=4)
    engine = Engine(target, cascade, "block", 5)

    engine.generate([PROMPTS[0]], SamplingParams(max_tokens=14, seed=3, ignore_eos=True))

    assert calls == [4, 4]  # one pass for each block of five


def test_rows_beyond_the_middles_context_draft_nothing(draft):
    cascade = CascadeDrafter(
        "c",
        PromptLookupDrafter(draft.vocab_size, CPU, shortest=1),
        ModelDrafter("m", draft.network, max_context=6),
    )
    cascade.begin(3, 40, KVCache(0, 0))
    sample = MostLikely()
    sample.rows = 3

    assert cascade.propose([[3] * 4, [3] * 6, [3] * 9], [3, 3, 3], sample).lengths == [2, 0, 0]
    assert cascade.propose([[3] * 6, [3] * 6, [3] * 9], [3, 3, 3], sample).lengths == [0, 0, 0]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("cascade:", "write cascade:BOTTOM,MIDDLE"),
        ("cascade:suffix", "write cascade:BOTTOM,MIDDLE"),
        ("cascade:suffix,", "write cascade:BOTTOM,MIDDLE"),
        ("cascade:suffix,cascade:suffix,self-int4", "two drafters"),
        ("cascade:suffix,prompt-lookup", "'prompt-lookup' has no network"),
        ("cascade:self-int4,self-int8", "'self-int4' is no cheaper"),
        ("cascade:early-exit:2,early-exit:2", "'early-exit:2' is no cheaper"),
        ("cascade:early-exit:9,self-int4", "K from 1 to 2"),
    ],
)
def test_pairs_that_cannot_work_are_refused(target, spec, says):
    with pytest.raises(ConfigError, match=says):
        make_drafter(spec, target)


def test_the_network_that_a_cascade_draws_with_is_the_middles(target):
    network, reads_target = drafting_network("cascade:suffix,self-int8", target)
    tokens = torch.tensor([[3, 4, 5]])
    alone = make_drafter("self-int8", target).network.forward(tokens, [0], KVCache(1, 4))
    assert reads_target
    assert torch.equal(network.forward(tokens, [0], KVCache(1, 4)), alone)


def test_a_drafter_that_copies_has_no_network_to_draw_with(target):
    with pytest.raises(ConfigError, match="'prompt-lookup' copies tokens"):
        drafting_network("prompt-lookup", target)


def test_the_network_behind_a_cascade_is_the_middles(target):
    of_cascade = scoring_network("cascade:suffix,self-int8", target)
    tokens = torch.tensor([[3, 4, 5]])
    found = of_cascade.forward(tokens, [0], KVCache(1, 4))
    alone = scoring_network("self-int8", target).forward(tokens, [0], KVCache(1, 4))
    assert torch.equal(found, alone)
