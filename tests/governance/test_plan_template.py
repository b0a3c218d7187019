"""Seven answers become a plan that `plan check` accepts, or are sent back with reasons."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.governance.lint import lint
from specdecode.governance.plan import parse_plan
from specdecode.governance.plan_answers import Answers, load_answers
from specdecode.governance.plan_template import plan_of
from specdecode.governance.power import simulate, suppose
from specdecode.governance.power_scenarios import harm
from specdecode.governance.rules.strata import Strata
from specdecode.governance.strict import TURNS
from specdecode.governance.verdict import Status
from tests.governance.answers import ANSWERS, answers

USERS_REJECT_FOR = {
    "crossover_concurrency",
    "kv_capacity_tokens",
    "longest_context_tokens",
    "prefix_cache_hit_rate",
    "target_tokens_per_output_token",
    "cold_start_s",
}


def written(**changes):
    return plan_of(Answers.model_validate(answers(**changes)))


def parsed(text):
    return parse_plan(yaml.safe_load(text))


def test_the_written_plan_has_nothing_for_check_to_find():
    assert lint(parsed(written())) == []


def test_it_covers_what_teams_turn_speculation_down_for():
    plan = parsed(written())
    watched = {name for stage in plan.stages for name in stage.metrics}
    kinds = {rule.kind for rule in plan.rules if rule.role != "secondary"}
    quality = [
        value
        for rule in plan.rules
        if isinstance(rule, Strata) and rule.measure == "quality_difference"
        for value in rule.strata["category"]
    ]

    assert watched >= USERS_REJECT_FOR
    assert kinds >= {"losslessness", "quality_non_inferiority", "tail_latency", "error_rate",
                     "token_amplification"}  # fmt: skip
    assert quality == ["tool_call", "structured_output"]
    assert [stage.name for stage in plan.stages] == ["offline", "confirmation", "shadow", "canary",
                                                     "watch"]  # fmt: skip


def test_every_answer_stands_in_the_plan():
    text = written()

    for parts in ANSWERS.values():
        for value in parts.values():
            for said in value if isinstance(value, list) else [value]:
                assert str(said) in text
    assert "<<" not in text


def test_it_is_commented_question_by_question():
    comments = [line for line in written().splitlines() if line.startswith("# ")]

    for number, question in enumerate(Answers.model_fields, start=1):
        assert any(line.lower().startswith(f"# {number}. {question}") for line in comments)


@settings(max_examples=40, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=TURNS), min_size=1)
)
def test_whatever_is_said_is_read_back_unchanged(said):
    plan = parsed(written(purpose={"claim": said}, recovery={"owner": said}))

    assert plan.claim == said
    assert {stop.owner for stop in plan.stop_conditions} == {said}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evidence": {"speed_ratio": 1.12}}, "n-max-too-small: offline: faster"),
        ({"evidence": {"quality_margin": 0.02}}, "n-max-too-small: offline: quality"),
        ({"mechanism": {"draft": "prompt-lookup"}}, "block-one-hot: arm block"),
        ({"evidence": {"tool_categories": ["agents"]}}, "no-tool-stratum"),
        ({"evidence": {"other_categories": [f"c{i}" for i in range(20)]}}, "n-min-out-of-reach"),
        ({"mechanism": {"acceptance_length": 7.0}}, "above its draft length"),
    ],
)
def test_answers_that_make_no_good_plan_are_sent_back(changes, message):
    with pytest.raises(ConfigError, match=message):
        written(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"purpose": {"mood": "good"}}, r"purpose\.mood: no such field"),
        ({"evidence": {"prompts": 59}}, r"evidence\.prompts: .*60"),
        ({"mechanism": {"verification": "lossy"}}, r"mechanism\.verification: .*'token'"),
        ({"baseline": {"concurrency": [1]}}, r"baseline\.concurrency: .*2 items"),
        ({"recovery": {"roll_back_when": "last week"}}, r"recovery\.roll_back_when"),
        ({"risk": {"reopen_when": []}}, r"risk\.reopen_when"),
    ],
)
def test_a_wrong_answer_is_named(tmp_path, changes, message):
    path = tmp_path / "answers.yaml"
    path.write_text(yaml.safe_dump(answers(**changes)))

    with pytest.raises(ConfigError, match=rf"answers\.yaml: not the seven answers\n  {message}"):
        load_answers(path)


def test_an_unquoted_date_is_the_text_it_is(tmp_path):
    path = tmp_path / "answers.yaml"
    path.write_text(yaml.safe_dump(answers()).replace("'2026-11-02'", "2026-11-02"))

    assert load_answers(path).recovery.roll_back_when == "2026-11-02"


def test_no_two_questions_ask_for_a_part_of_the_same_name():
    names = [name for field in Answers.model_fields.values() for name in
             field.annotation.model_fields]  # fmt: skip

    assert sorted({name for name in names if names.count(name) > 1}) == ["owner"]


@pytest.mark.parametrize("metric", ["error_rate", "e2e_s"])
def test_its_live_stages_do_not_pass_harm_to_what_users_notice(metric):
    plan = parsed(written())
    harmed = suppose(plan, harm(plan, metric))

    assert simulate(plan, stage="shadow", runs=5).chances[Status.GO].count == 5
    assert simulate(harmed, stage="shadow", runs=5).chances[Status.GO].count == 0
