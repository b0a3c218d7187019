"""Rows of this engine with their steps, and what the audit learns about the draft from them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from specdecode import Engine, SamplingParams
from specdecode.audit import audit
from specdecode.audit.faults import find_fault, plant
from specdecode.decoding import coins
from specdecode.errors import PromptTooLongError
from specdecode.workload.decoded_rows import Asked, decoded_rows
from tests.audit.models import VOCAB, tiny_llama

GAMMA, LENGTH = 3, 40
ASKED = [Asked([1, 2 + n % (VOCAB - 2), 2 + (7 * n) % (VOCAB - 2)]) for n in range(40)]
SAMPLED = SamplingParams(max_tokens=LENGTH, ignore_eos=True, seed=0)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tiny_llama(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    folder = tmp_path_factory.mktemp("draft")
    tiny_llama(folder, layers=1, seed=1)
    return str(folder)


@pytest.fixture
def engine(target, draft):
    def load(verification="token"):
        return Engine.load(target, draft, verification=verification, num_speculative_tokens=GAMMA)

    return load


@pytest.fixture
def honesty(target, draft, monkeypatch):
    """What the audit says of rows that went through a file; a few hundred draws are enough."""
    monkeypatch.setattr("specdecode.audit.report.min_sampled_tokens", lambda _: 400)

    def judge(engine, params=SAMPLED):
        rows = decoded_rows(engine, ASKED, params, trace=True)
        return audit([json.loads(json.dumps(row)) for row in rows], target, draft).draft_honesty

    return judge


@pytest.mark.parametrize("verification", ["token", "block", "match"])
def test_an_engine_that_draws_from_what_it_states_is_honest(engine, honesty, verification):
    found = honesty(engine(verification))

    assert found["verdict"] == "honest", found["reasons"]
    assert found["declared"]["compared"] == found["draws"]["read"]
    assert found["declared"]["apart"] == 0


@pytest.mark.parametrize("verification", ["token", "block"])
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("draft-greedy-stated-as-sampled", "lean towards 'sharper'"),
        ("draft-cut-after-look", "were not drawn from the declared draft"),
        ("draft-probs-untempered", "recorded draft probabilities are not those"),
        ("draft-probs-unfiltered", "recorded draft probabilities are not those"),
    ],
)
def test_a_planted_fault_of_the_draft_is_named(engine, honesty, verification, fault, told):
    planted = find_fault(fault)
    params = SAMPLED.model_copy(update=dict(planted.sampling))

    assert honesty(engine(verification), params)["verdict"] == "honest"
    found = honesty(plant(engine(verification), planted), params)

    assert found["verdict"] == "dishonest"
    assert told in " ".join(found["reasons"])


def test_coins_that_drew_the_draft_tokens_too_are_named(engine, honesty, monkeypatch):
    """Draft token i and the coin that judges it are the same number."""
    draw = coins.CoinStream.draw

    def shared(self, purpose, index, count, part=0):
        same = {coins.Purpose.ACCEPT: coins.Purpose.DRAFT}.get(purpose, purpose)
        return draw(self, same, index, count, part)

    monkeypatch.setattr(coins.CoinStream, "draw", shared)
    found = honesty(engine())

    assert found["verdict"] == "dishonest"
    assert "coins are not independent" in found["reasons"][-1]
    assert found["draws"]["crossed_at"] is None


@pytest.mark.parametrize("draft", ["self-int4", "self-int8"])
def test_an_honest_self_draft_beside_a_float32_target_is_honest(target, draft):
    """Its kernels round to bfloat16 all the same: the noise is its own, not the target's."""
    engine = Engine.load(target, draft, verification="token", num_speculative_tokens=GAMMA)
    rows = decoded_rows(engine, ASKED, SAMPLED, trace=True)

    assert audit(list(rows), target, draft).draft_honesty["verdict"] != "dishonest"


def test_rows_say_what_was_asked_and_how_it_was_drawn(engine):
    params = SAMPLED.model_copy(update={"max_tokens": 5, "n": 2})
    asked = [Asked(one.prompt, {"prompt_id": f"p{i}"}) for i, one in enumerate(ASKED[:10])]
    rows = list(decoded_rows(engine(), asked, params, trace=True))

    assert [row["order_index"] for row in rows] == list(range(20))
    assert [row["prompt_id"] for row in rows] == [f"p{i // 2}" for i in range(20)]
    assert {row["arm"] for row in rows} == {row["verification"] for row in rows} == {"token"}
    assert {row["sampling"]["n"] for row in rows} == {1}
    for row in rows:
        assert row["prompt_token_ids"] == asked[int(row["prompt_id"][1:])].prompt
        emitted = [token for step in row["trace"] for token in step["emitted"]]
        assert emitted == row["output_token_ids"][-len(emitted) :]
        assert row["drafted"] == sum(len(step["draft_tokens"]) for step in row["trace"])


def test_a_seed_that_was_drawn_is_recorded_and_gives_the_reply_again(engine):
    params = SamplingParams(max_tokens=6, ignore_eos=True)
    (row,) = decoded_rows(engine(), ASKED[:1], params)
    again = engine().generate([ASKED[0].prompt], SamplingParams(**row["sampling"]))[0]

    assert row["seed"] == row["sampling"]["seed"] == again.seed
    assert list(again.token_ids) == row["output_token_ids"]


def test_steps_are_kept_where_they_are_asked_for_and_something_was_drafted(target, engine):
    (without,) = decoded_rows(engine(), ASKED[:1], SAMPLED)
    (plain,) = decoded_rows(Engine.load(target), ASKED[:1], SAMPLED, trace=True)

    assert without["trace"] is None
    assert (plain["arm"], plain["verification"], plain["trace"]) == ("plain", None, None)


def test_a_prompt_that_is_too_long_is_named_before_anything_is_decoded(engine):
    asked = [*ASKED[:9], Asked(np.ones(300, int).tolist(), {"prompt_id": "long"})]
    rows = decoded_rows(engine(), asked, SAMPLED)

    with pytest.raises(PromptTooLongError, match="prompt long"):
        next(rows)
