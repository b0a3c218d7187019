"""The bench of the acceptance guard: that it spoils the draft, and compares like with like."""

from __future__ import annotations

import pytest

from pipelines.bench import guard as bench
from pipelines.bench.turns import BenchPrompt
from specdecode import Engine
from specdecode.errors import ConfigError
from specdecode.models import load_model
from tests.tiny_models import write_tiny_model


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return load_model(write_tiny_model(tmp_path_factory.mktemp("t")), device="cpu", dtype="float32")


def test_a_draft_is_spoilt_in_the_middle_beside_plain_decoding(target, monkeypatch):
    monkeypatch.setattr(bench, "ADJUSTING", 12)
    monkeypatch.setattr(bench, "_BEFORE", 6)
    drafter = Engine.load(target, "self-int8").drafter
    prompts = [BenchPrompt("a", [2, 3]), BenchPrompt("b", [4, 5, 6])]

    rows, told = bench.spoil(target, drafter, prompts, 20, seed=0)

    assert len(rows) == 2 * (6 + 12 + 20)
    assert all(row["tokens"] == 2 for row in rows if row["arm"] == "plain")
    assert told["cost_ratio"] > 0
    assert bench.ratio(rows, "after")["n"] == 3  # blocks of ten steps, from step 18 to 37


def test_a_spoilt_draft_proposes_as_many_tokens_of_which_fewer_are_kept(target):
    kept = {}
    for useless in (False, True):
        spoilt = bench.Spoilt(Engine.load(target, "self-int8").drafter)
        spoilt.is_useless = useless
        params = bench.SamplingParams(max_tokens=200, seed=1, ignore_eos=True)

        (result,) = Engine(target, spoilt, "block", 3).generate([[2, 3, 4]], params)

        assert result.acceptance.drafted >= 2 * result.acceptance.steps
        kept[useless] = result.acceptance.acceptance_rate
    # The laws of the tiny model are not so far from the uniform one.
    assert kept[True] < 0.75 * kept[False]


def test_an_arm_catches_up_with_one_whose_replies_have_grown_longer(target):
    """Looking back on more tokens takes longer: the promise is about replies of one length."""
    prompts = [BenchPrompt("a", [2, 3]), BenchPrompt("b", [4, 5, 6])]
    drafter = Engine.load(target, "self-int8").drafter
    ahead = bench.Arm(Engine(target, drafter, "block", 3), prompts, None, 0)
    behind = bench.Arm(Engine(target, None, "block", 3), prompts, None, 0)
    for _ in range(10):
        ahead.step()
    assert ahead.made > 2 * 11

    behind.catch_up(ahead)

    assert ahead.made <= behind.made < ahead.made + len(prompts)


def test_blocks_are_paired_step_by_step():
    rows = [
        {"phase": "after", "seed": 0, "step": step, "arm": arm, "tokens": 1, "seconds": seconds}
        for step in range(40)
        for arm, seconds in (("plain", 1.0 + step), ("guarded", (1.0 + step) / 2))
    ]

    assert bench.ratio(rows, "after")["ratio"] == pytest.approx(2)
    with pytest.raises(ConfigError, match="--steps"):
        bench.ratio(rows[:4], "after")
