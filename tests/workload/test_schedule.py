"""What is measured, in which order and with which seeds, follows from the inputs alone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.workload.sampling import assign, generation_seed, settings_from
from specdecode.workload.schedule import plan_generations, select_prompts
from tests.workload.examples import CATEGORIES, compiled

SETTINGS = settings_from([{"name": "greedy", "temperature": 0}, {"name": "sampled"}])
ARMS = ("plain", "token", "block")


def test_the_arms_of_a_prompt_and_setting_follow_one_another() -> None:
    plan = plan_generations(["p", "q"], SETTINGS, ARMS, master_seed=1)

    assert [g.order_index for g in plan] == list(range(12))
    for i in range(0, 12, 3):
        unit = plan[i : i + 3]
        assert len({(g.prompt_id, g.sampling.name) for g in unit}) == 1
        assert {g.arm for g in unit} == set(ARMS)
    assert [g.prompt_id for g in plan] == ["p"] * 6 + ["q"] * 6
    assert plan[0].request_id == f"p/greedy/{plan[0].arm}"


def test_each_arm_comes_first_about_as_often() -> None:
    plan = plan_generations([f"p{i}" for i in range(600)], SETTINGS[:1], ARMS, master_seed=5)

    first = Counter(g.arm for g in plan[::3])
    # Binomial(600, 1/3) has standard deviation 11.5; five of them make a false alarm negligible.
    assert all(abs(first[arm] - 200) < 58 for arm in ARMS)


def test_the_order_of_arms_does_not_depend_on_how_they_are_listed() -> None:
    one = plan_generations(["p", "q"], SETTINGS, ARMS, master_seed=1)
    two = plan_generations(["p", "q"], SETTINGS, ARMS[::-1], master_seed=1)

    assert one == two


def test_every_generation_has_its_own_seed() -> None:
    plan = plan_generations([f"p{i}" for i in range(50)], SETTINGS, ARMS, master_seed=1)
    other = plan_generations([f"p{i}" for i in range(50)], SETTINGS, ARMS, master_seed=2)

    seeds = {g.seed for g in plan}
    assert len(seeds) == len(plan)
    assert not seeds & {g.seed for g in other}


@given(st.integers(), st.text(), st.text(), st.text())
def test_seeds_fit_a_signed_64_bit_integer(master: int, prompt: str, name: str, arm: str) -> None:
    seed = generation_seed(master, prompt, name, arm)

    assert 0 <= seed < 2**63
    assert seed == generation_seed(master, prompt, name, arm)


def test_an_assignment_chooses_the_settings_of_each_prompt() -> None:
    ids = ["p", "q", "r"]
    plan = plan_generations(
        ids, SETTINGS, ["plain"], master_seed=1, assignment=assign(ids, SETTINGS, mode="rotate")
    )

    assert [(g.prompt_id, g.sampling.name) for g in plan] == [
        ("p", "greedy"),
        ("q", "sampled"),
        ("r", "greedy"),
    ]
    assert assign(["p"], SETTINGS) == {"p": ["greedy", "sampled"]}


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no prompt"):
        plan_generations([], SETTINGS, ARMS, master_seed=1)
    with pytest.raises(ConfigError, match="there is no arm"):
        plan_generations(["p"], SETTINGS, [], master_seed=1)
    with pytest.raises(ConfigError, match="a prompt occurs twice"):
        plan_generations(["p", "p"], SETTINGS, ARMS, master_seed=1)
    with pytest.raises(ConfigError, match="leaves nothing to measure"):
        plan_generations(["p"], SETTINGS, ARMS, master_seed=1, assignment={})
    with pytest.raises(ConfigError, match="unknown setting 'hot'"):
        plan_generations(["p"], SETTINGS, ARMS, master_seed=1, assignment={"p": ["hot"]})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "no sampling setting"),
        ([{"temperature": 0}], "needs a 'name'"),
        ([{"name": "a/b"}], "without '/'"),
        ([{"name": "a"}, {"name": "a"}], "same name"),
        ([{"name": "a", "seed": 3}], "master seed"),
        ([{"name": "a", "temperature": -1}], "'a'.*temperature"),
        ([{"name": "a", "heat": 1}], "'a'.*heat"),
    ],
)
def test_wrong_sampling_settings_are_refused(options: list[dict[str, object]], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        settings_from(options)


def test_the_recorded_sampling_is_alike_in_all_rows_of_a_setting() -> None:
    recorded = SETTINGS[0].recorded()

    assert recorded["name"] == "greedy"
    assert recorded["temperature"] == 0
    assert "seed" not in recorded


def test_all_prompts_of_a_split_come_in_order() -> None:
    table = compiled()

    chosen = select_prompts(table, "development")

    assert set(chosen["split"].to_pylist()) == {"development"}
    assert chosen["order_index"].to_pylist() == list(range(chosen.num_rows))
    assert 0 < chosen.num_rows < table.num_rows
    assert select_prompts(table, "development", 10_000).equals(chosen)


def test_a_small_choice_still_sees_every_category_and_language() -> None:
    chosen = select_prompts(compiled(), "reserve", 6)

    cells = Counter(zip(*(chosen[c].to_pylist() for c in ("category", "language")), strict=True))
    assert chosen.num_rows == 6
    assert set(chosen["category"].to_pylist()) == set(CATEGORIES)
    assert set(cells.values()) == {1}
    order = chosen["order_index"].to_pylist()
    assert order == sorted(order)


def test_a_smaller_choice_is_part_of_a_larger_one() -> None:
    small = select_prompts(compiled(), "development", 5)["prompt_id"].to_pylist()
    large = select_prompts(compiled(), "development", 9)["prompt_id"].to_pylist()

    assert set(small) < set(large)


def test_impossible_choices_are_refused() -> None:
    with pytest.raises(ConfigError, match="'confirmation' is called 'reserve' now"):
        select_prompts(compiled(), "confirmation")
    with pytest.raises(ConfigError, match="no split 'test'"):
        select_prompts(compiled(), "test")
    with pytest.raises(ConfigError, match="at least 1, found 0"):
        select_prompts(compiled(), "development", 0)
    with pytest.raises(ConfigError, match="no prompt in the split"):
        select_prompts(compiled().slice(0, 0), "development")


def test_a_setting_of_several_replies_is_refused() -> None:
    with pytest.raises(ConfigError, match="'many': n=4, but one reply a prompt is measured"):
        settings_from([{"name": "greedy", "temperature": 0}, {"name": "many", "n": 4}])
