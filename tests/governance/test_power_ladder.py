"""Ways through the stages of a plan, one run of each stage after the other."""

from __future__ import annotations

import itertools
import json

import pytest

from specdecode.governance.power import simulate, suppose
from specdecode.governance.power_ladder import climb, ladder
from specdecode.governance.power_outcome import Ended, Simulation
from specdecode.governance.verdict import Status
from tests.governance.plans import OFFLINE, small_plan

G, I, N = Status.GO, Status.INCONCLUSIVE, Status.NO_GO  # noqa: E741 - the study's letters
TWO = [OFFLINE, OFFLINE | {"name": "confirmation"}]


def stage(name, *statuses):
    return Simulation.of(name, "prompt", 0, [Ended(status, 10) for status in statuses])


def counts(found):
    return {status: chance.count for status, chance in found.walks.items() if chance.count}


def test_a_walk_ends_at_the_first_answer_other_than_go():
    found = ladder(
        {
            "offline": stage("offline", G, G, N, G),
            "shadow": stage("shadow", G, I, G, G),
            "canary": stage("canary", N, G, G, G),
        }
    )

    assert counts(found) == {N: 2, I: 1, G: 1}
    assert found.reached == {"offline": 1.0, "shadow": 0.75, "canary": 0.5}


def test_over_every_pairing_of_runs_the_chance_is_the_product_of_the_stages():
    one, two = [G, G, I, N], [G, N, G, G, G]
    pairs = list(itertools.product(one, two))
    found = ladder(
        {
            "offline": stage("offline", *(first for first, _ in pairs)),
            "canary": stage("canary", *(second for _, second in pairs)),
        }
    )

    assert found.walks[G].rate == pytest.approx(2 / 4 * 4 / 5)


def test_a_watch_ends_no_walk():
    found = ladder({"offline": stage("offline", G, G), "watch": stage("watch", N, I)})

    assert counts(found) == {G: 2}
    assert found.weakest.stage == "offline"
    assert ladder({"watch": stage("watch", N)}).walks is None


def test_the_weakest_stage_is_that_with_the_smallest_chance():
    found = ladder({"offline": stage("offline", G, N), "canary": stage("canary", N, N)})

    assert found.weakest.stage == "canary"


def test_all_stages_of_a_plan_are_simulated_independently():
    plan = suppose(
        small_plan(stages=TWO, prompts_expected={"full": 30}),
        {"arms": {"block": {"speed_ratio": 1.12}}},
    )
    found = climb(plan, runs=12, seed=3)

    assert list(found.stages) == ["offline", "confirmation"]
    assert found.stages["offline"] == simulate(plan, stage="offline", runs=12, seed=3)
    first, second = (
        [end.status for end in found.stages[name].ends] for name in ("offline", "confirmation")
    )
    assert first != second


def test_the_document_has_every_stage_and_the_way_through():
    document = climb(small_plan(stages=TWO, prompts_expected={"full": 30}), runs=2).to_json()

    assert json.loads(json.dumps(document)) == document
    assert list(document["stages"]) == ["offline", "confirmation"]
    assert document["stages"]["offline"]["reached"] == 1.0
    assert sum(chance["count"] for chance in document["ladder"].values()) == 2
