"""Sizes are compared by speed, on the same texts and prompts."""

from __future__ import annotations

import itertools
import json

import pytest

from specdecode.distil.sizes import Timing, compare, table, time_drafts
from specdecode.distil.texts import read_page, read_shard
from specdecode.errors import ConfigError
from specdecode.models import load_model
from tests.distil.conftest import SYNTHESIS, TRAINING

TIMING = Timing(lengths=(1, 2), prompts=2, rounds=2, max_tokens=6)


def test_every_size_is_trained_evaluated_and_timed(target, withheld, tmp_path):
    options = {
        "layers": [1, 2],
        "heads": [12, None],
        "withheld": withheld,
        "synthesis": SYNTHESIS.model_copy(update={"tokens": 150, "held_out": 8, "shard": 8}),
        "training": TRAINING.model_copy(update={"passes": 1}),
        "timing": TIMING,
        "device": "cpu",
        "dtype": "float32",
    }

    found = compare(target, tmp_path, **options)

    names = {f"layers-{depth}-head-{head}" for depth in (1, 2) for head in (12, "full")}
    assert {row["draft"] for row in found["drafts"]} == names
    ratios = [row["speed_ratio"] for row in found["drafts"]]
    assert ratios == sorted(ratios, reverse=True)
    for row in found["drafts"]:
        assert row["speed_ratio"] == max(row["by_length"].values())
        assert row["speed_ratio_range"][0] <= row["speed_ratio"] <= row["speed_ratio_range"][1]
        assert set(row["expected_acceptance"]) == {"1", "0.7", "0"}
    assert json.loads((tmp_path / "compare.json").read_text()) == found
    assert (tmp_path / "compare.md").read_text() == table(found)
    assert len(list((tmp_path / "shards").glob("train-*.json"))) > 0
    assert not list(tmp_path.glob("layers-*/shards"))  # written once, for all


def test_speed_is_tokens_over_the_clocks_seconds(finished, target):
    """A clock that ticks once a look: every arm of every round takes one second."""
    model = load_model(target, "cpu", "float32")
    shards = finished[0] / "work" / "shards"
    texts = read_shard(shards, read_page(shards / "held-out-00000.json"))
    ticks = itertools.count()

    speeds = time_drafts(model, {"a": finished[0]}, texts, TIMING, lambda: float(next(ticks)))

    assert set(speeds) == {("plain", 0), ("a", 1), ("a", 2)}
    assert all(found == [12.0, 12.0] for found in speeds.values())


@pytest.mark.parametrize("lacking", [{"layers": []}, {"heads": []}, {"timing": Timing(rounds=0)}])
def test_nothing_to_compare_is_refused(target, withheld, tmp_path, lacking):
    options = {"layers": [1], "heads": [None], "withheld": withheld, **lacking}
    with pytest.raises(ConfigError, match="at least one size"):
        compare(target, tmp_path, **options)
