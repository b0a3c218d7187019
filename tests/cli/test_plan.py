"""`specdecode plan check`, `new` and `power`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from specdecode.governance.plan import canonical_json
from specdecode.governance.plan_answers import Answers
from tests.governance.answers import answers
from tests.governance.live_plans import CANARY, SHADOW, live_plan
from tests.governance.plans import OFFLINE, STOP, small_plan

DEFAULT = "plans/default.yaml"


@pytest.fixture
def answered(tmp_path):
    path = tmp_path / "answers.yaml"
    path.write_text(yaml.safe_dump(answers()))
    return path


@pytest.fixture
def plan_file(tmp_path):
    """Write a small plan with some fields changed; JSON is YAML."""

    def put(**fields) -> Path:
        path = tmp_path / "plan.yaml"
        path.write_text(canonical_json(small_plan(**fields)))
        return path

    return put


class Terminal(io.StringIO):
    """What a person types, one line an answer."""

    def isatty(self) -> bool:
        return True


def typed(**changes):
    """Every answer in the order of the questions, defaults taken with an empty line."""
    given, lines = answers(**changes), []
    for question, field in Answers.model_fields.items():
        for part in field.annotation.model_fields:
            said = given[question].get(part, "")
            lines.append("; ".join(said) if isinstance(said, list) else str(said))
    return Terminal("\n".join(lines) + "\n")


def test_a_plan_with_a_mistake_is_shown_with_what_to_do(specdecode, plan_file):
    plan = plan_file(stop_conditions=[STOP | {"tested": None}])
    done = specdecode("plan", "check", plan)
    assert done.code == 2
    assert "not fit to be used" in done.out
    assert "error recovery-untested" in done.out
    assert "to do: try it" in done.out


def test_findings_are_in_the_json(specdecode, plan_file):
    document = specdecode("plan", "check", plan_file(), "--json").document
    found = {finding["code"]: finding["severity"] for finding in document["findings"]}
    assert document["valid"] is False
    assert found["no-tail-guardrail"] == "error"
    assert set(document["findings"][0]) == {"code", "severity", "message", "remedy"}


def test_the_default_plan_is_fit(specdecode):
    done = specdecode("plan", "check", DEFAULT, "--json")
    assert (done.code, done.document["valid"], done.document["findings"]) == (0, True, [])
    assert done.document["plan"]["schema"] == "specdecode.plan/2"


def test_check_tells_what_all_stages_may_err_towards_go(specdecode, plan_file):
    plan = plan_file(stages=[OFFLINE, OFFLINE | {"name": "confirmation", "alpha": 0.05}])
    told = specdecode("plan", "check", plan)
    document = specdecode("plan", "check", plan, "--json").document
    assert "false GO: at most 0.075 over all stages (offline 0.025, confirmation 0.05)" in told.out
    assert "stage offline: fixed-n, " in told.out
    assert "{" not in told.out  # the whole plan is in the file, and in the JSON
    assert document["alpha"]["levels"] == {"offline": "1/40", "confirmation": "1/20"}


def test_check_tells_no_total_that_does_not_hold(specdecode, plan_file):
    done = specdecode("plan", "check", plan_file(alpha_total=0.01), "--json")
    assert done.code == 2
    assert done.document["alpha"] is None
    assert "alpha-over-total" in {finding["code"] for finding in done.document["findings"]}


def test_a_new_plan_is_accepted_by_check(specdecode, answered, tmp_path):
    plan = tmp_path / "plans" / "new.yaml"
    done = specdecode("plan", "new", plan, "--answers", answered, "--json")
    checked = specdecode("plan", "check", plan, "--json").document
    assert done.code == 0
    assert checked["valid"] is True
    assert checked["findings"] == []
    assert checked["plan_sha256"] == done.document["plan_sha256"]


def test_a_plan_is_never_overwritten(specdecode, answered, tmp_path):
    plan = tmp_path / "new.yaml"
    plan.write_text("mine")
    done = specdecode("plan", "new", plan, "--answers", answered)
    assert done.code == 2
    assert "never overwritten" in done.err
    assert plan.read_text() == "mine"


def test_answers_that_contradict_each_other_leave_no_file(specdecode, tmp_path):
    path, plan = tmp_path / "answers.yaml", tmp_path / "new.yaml"
    path.write_text(yaml.safe_dump(answers(evidence={"speed_ratio": 1.11})))
    done = specdecode("plan", "new", plan, "--answers", path)
    assert done.code == 2
    assert "n-max-too-small" in done.err
    assert not plan.exists()


def test_without_a_terminal_the_way_out_is_named(specdecode, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    done = specdecode("plan", "new", tmp_path / "new.yaml")
    assert done.code == 2
    assert "--answers FILE (docs/plan.md has one to copy)" in done.err


def test_the_answers_in_the_documentation_make_a_plan(specdecode, tmp_path):
    page = (Path(__file__).parents[2] / "docs/plan.md").read_text("utf-8")
    answers_file, plan = tmp_path / "answers.yaml", tmp_path / "new.yaml"
    example = page.split("```yaml\n")[1].split("```")[0]
    answers_file.write_text(example)
    for field in Answers.model_fields.values():
        assert all(part in example for part in field.annotation.model_fields)
    done = specdecode("plan", "new", plan, "--answers", answers_file)
    assert done.code == 0, done.err
    assert f"next: specdecode plan check {plan}\n" in done.out
    assert f"next: specdecode plan seal {plan} --key YOURS\n" in done.out


def test_a_person_is_asked_the_seven_questions(specdecode, answered, tmp_path, monkeypatch):
    plan, same = tmp_path / "asked.yaml", tmp_path / "read.yaml"
    monkeypatch.setattr("sys.stdin", typed())
    done = specdecode("plan", "new", plan)
    specdecode("plan", "new", same, "--answers", answered)
    asked = [line for line in done.err.splitlines() if line.split(":")[0].lower() in answers()]
    assert done.code == 0, done.err
    assert len(asked) == 7
    assert plan.read_text() == same.read_text()


def test_answers_of_a_person_who_stops_are_not_lost(specdecode, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal("\n".join(answers()["purpose"].values()) + "\n"))
    done = specdecode("plan", "new", tmp_path / "asked.yaml")
    kept = tmp_path / "asked.answers.yaml"
    assert done.code == 130
    assert f"kept in {kept}" in done.err
    assert yaml.safe_load(kept.read_text())["purpose"] == answers()["purpose"]
    missing = specdecode("plan", "new", tmp_path / "asked.yaml", "--answers", kept).err
    assert "mechanism.draft: Field required" in missing
    assert not (tmp_path / "asked.yaml").exists()


def test_answers_that_make_no_plan_are_not_lost(specdecode, tmp_path, monkeypatch):
    for name in ("asked.answers.yaml", "asked.answers1.yaml"):
        monkeypatch.setattr("sys.stdin", typed(evidence={"speed_ratio": 1.12}))
        done = specdecode("plan", "new", tmp_path / "asked.yaml")
        assert done.code == 2
        assert "n-max-too-small" in done.err
        assert f"kept in {tmp_path / name}" in done.err
    kept = tmp_path / name
    kept.write_text(kept.read_text().replace("speed_ratio: 1.12", "speed_ratio: 1.4"))
    assert specdecode("plan", "new", tmp_path / "asked.yaml", "--answers", kept).code == 0


def test_a_wrong_answer_is_asked_for_again(specdecode, tmp_path, monkeypatch):
    plan = tmp_path / "asked.yaml"
    lines = typed().getvalue().splitlines()
    place = len(Answers.model_fields["purpose"].annotation.model_fields) + 1
    lines.insert(place, "lossy")  # the acceptance rule, which is a choice of four
    monkeypatch.setattr("sys.stdin", Terminal("\n".join(lines) + "\n"))
    done = specdecode("plan", "new", plan)
    assert done.code == 0, done.err
    assert "Input should be 'token', 'block'" in done.err


def test_power_prints_chances_and_draws_them(specdecode, plan_file, tmp_path):
    picture = tmp_path / "power.svg"
    arguments = ("plan", "power", plan_file(prompts_expected={"full": 30}), "--runs", 3)
    done = specdecode(*arguments, "--svg", picture)
    assert done.code == 0, done.err
    assert "planned: 3 runs of stage offline, expected n 30 prompts, seed 0" in done.out
    assert "GO" in done.out
    assert picture.read_text().startswith("<svg")
    assert done.err == ""
    assert specdecode(*arguments).out == done.out


def test_power_compares_scenarios(specdecode, plan_file, tmp_path):
    effects = tmp_path / "effects.yaml"
    ratios = {"fast": 2.0, "slow": 0.7}
    scenarios = {name: {"arms": {"block": {"speed_ratio": x}}} for name, x in ratios.items()}
    effects.write_text(yaml.safe_dump(scenarios))
    plan = plan_file(prompts_expected={"full": 30})
    done = specdecode("plan", "power", plan, "--runs", 3, "--effects", effects, "--json")
    stages = {name: found["stages"] for name, found in done.document["scenarios"].items()}
    chances = {name: found["offline"]["chances"] for name, found in stages.items()}
    assert chances["fast"]["GO"]["count"] == 3
    assert chances["slow"]["NO_GO"]["count"] == 3
    assert done.document["wanted"] == 0.8


@pytest.mark.parametrize("text", ["[]", "fast: 2", "fast: {arms: {blok: {}}}", "{}"])
def test_effects_that_are_none_are_a_usage_error(specdecode, plan_file, tmp_path, text):
    effects = tmp_path / "effects.yaml"
    effects.write_text(text)
    done = specdecode("plan", "power", plan_file(), "--effects", effects)
    assert done.code == 2
    assert "effects.yaml" in done.err


def test_a_stage_that_is_not_there_is_a_usage_error(specdecode, plan_file):
    done = specdecode("plan", "power", plan_file(), "--stage", "canary")
    assert done.code == 2
    assert "no stage canary; it has offline" in done.err


@pytest.fixture
def live_file(tmp_path):
    """Write a small plan with a shadow and a canary, some of it changed."""

    def put(**fields) -> Path:
        path = tmp_path / "live.yaml"
        path.write_text(canonical_json(live_plan(SHADOW, CANARY, **fields)))
        return path

    return put


def test_power_goes_through_all_stages_and_through_them_in_turn(specdecode, live_file, tmp_path):
    picture = tmp_path / "power.svg"
    done = specdecode("plan", "power", live_file(), "--runs", 3, "--svg", picture)
    assert done.code == 0, done.err
    assert "3 runs of stage offline, expected n 30 prompts, seed 0" in done.out
    assert "3 runs of stage shadow, expected n" in done.out
    assert "requests of 240 (half decided by " in done.out
    assert "planned: offline, shadow, canary in turn" in done.out
    assert "all in turn" in picture.read_text()


def test_power_holds_the_plan_against_no_effect_and_harm(specdecode, live_file):
    arguments = ("--runs", 3, "--no-effect", "--harm", "e2e_s", "--stage", "shadow")
    done = specdecode("plan", "power", live_file(), *arguments, "--json")
    found = done.document["scenarios"]
    assert list(found) == ["planned", "no effect", "harm to e2e_s"]
    harmed = found["harm to e2e_s"]["stages"]["shadow"]
    assert harmed["chances"]["GO"]["count"] == 0
    assert harmed["held_by"] == {"e2e_s": 3}
    assert found["planned"]["stages"]["shadow"]["chances"]["GO"]["count"] == 3
    assert specdecode("plan", "power", live_file(), *arguments).out.count("wanted") == 1


def test_harm_to_what_is_not_supposed_is_a_usage_error(specdecode, live_file):
    done = specdecode("plan", "power", live_file(), "--harm", "luck")
    assert done.code == 2
    assert "harm to luck cannot be supposed: give one of" in done.err


def test_a_live_stage_without_its_effects_names_the_field(specdecode, live_file):
    done = specdecode("plan", "power", live_file(live=None), "--runs", 1)
    assert done.code == 2
    assert "shadow cannot be simulated: power.effects.live is null" in done.err
