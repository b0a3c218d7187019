"""A release, look by look, and ended at every moment of every look."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pipelines.flows.history import history_of
from specdecode.errors import ConfigError
from specdecode.governance import plan_sha256
from specdecode.governance.ladder_actions import (
    Hold,
    Promote,
    RollBack,
    SetState,
)
from tests.pipelines.releases import (
    ALL,
    MANIFEST,
    STAGES,
    WAY_UP,
    broken,
    lines,
    release_plan,
    short_plan,
    world,
)


def test_a_good_candidate_goes_all_the_way_and_every_step_is_taken_once(tmp_path):
    own = world(tmp_path)
    found = own.climb(*ALL)

    assert isinstance(found.action, Promote)
    assert own.router.went == WAY_UP
    assert own.registry.moves == ["2"]
    done = [key for event, _, key in lines(own) if event == "done"]
    assert done == ["shadow", "canary-0.05", "canary-0.25", "canary-0.5", "watch"]
    assert {state.changed_by for state in own.router.history} == {"flow test"}
    held = own.look(*ALL)
    assert isinstance(held.action, Hold)
    assert "no alarm" in held.action.reason
    assert own.router.went == WAY_UP


def test_the_gate_shows_the_step_that_was_judged(tmp_path):
    own = world(tmp_path)
    own.look(*ALL)
    own.look("shadow")

    gate = json.loads((tmp_path / "gate.json").read_text())
    assert (gate["status"], gate["stage"], gate["step"]) == ("GO", "shadow", None)
    assert gate["manifest_sha256"] == MANIFEST


def test_the_gate_never_lets_a_step_pass_by_the_numbers_of_another(tmp_path):
    own = world(tmp_path)
    gate = tmp_path / "gate.json"
    own.look(*ALL)
    own.look(*ALL)
    assert own.router.state.step == "0.05"
    assert not gate.exists()
    own.look(*ALL)
    assert own.router.state.step == "0.25"

    recorded_before = own.traffic("canary")  # before anything of the new step has come
    release = own.release()
    quiet = replace(release.judge, rows=lambda _: recorded_before.slice(0, 900))
    own.changes = {"judge": quiet}
    found = own.look(*ALL)

    assert isinstance(found.action, Hold)
    document = json.loads(gate.read_text())
    assert (document["status"], document["step"]) == ("INCONCLUSIVE", "0.25")


BAD = {"canary 0.25": broken}
SHORT_WAY = [("shadow", 1.0), ("canary", 0.25), ("canary", 0.5), ("full", 1.0)]
TALES = {"good": ({}, SHORT_WAY), "bad": ({"truths": BAD}, [*SHORT_WAY[:2], ("off", 0.0)])}


def moments(name):
    """How many moments a tale has without a crash."""
    with TemporaryDirectory() as folder:
        own = world(Path(folder), plan=short_plan(), **TALES[name][0])
        own.climb(*ALL)
        return own.moments


@pytest.mark.parametrize("name", TALES)
def test_ended_at_any_moment_it_comes_to_the_same_end_by_the_same_steps(tmp_path, name):
    made, way = TALES[name]
    total = moments(name)
    assert total > 15

    for crash in range(1, total + 1):
        own = world(tmp_path / str(crash), plan=short_plan(), **made)
        own.folder.mkdir()
        found = own.climb(*ALL, crash_after=crash)
        assert own.router.went == way, f"after moment {crash}"
        assert isinstance(found.action, Promote | RollBack | Hold)
        settled = own.look(*ALL)  # whatever was left untold is told
        assert isinstance(settled.action, Hold)
        history = history_of(own.release().records.journal.lines())
        assert (history.pending, history.untold) == (None, None), f"after moment {crash}"
        assert history.promoted == (name == "good")
        assert own.registry.moves == (["2"] if name == "good" else [])


def test_harm_rolls_back_and_closes_the_release_for_good(tmp_path):
    own = world(tmp_path, truths=BAD)
    found = own.climb(*ALL)

    assert isinstance(found.action, RollBack)
    assert "error_rate" in found.action.reason
    assert own.router.state.mode == "off"
    assert own.told[-1] == ("canary 0.25", "RollBack")
    again = own.look(*ALL)
    assert isinstance(again.action, Hold)
    assert "was taken back: canary 0.25: NO_GO" in again.action.reason
    assert own.router.state.mode == "off"


def test_harm_after_the_promotion_takes_the_alias_back_too(tmp_path):
    own = world(tmp_path, truths={"watch": broken})
    own.climb(*ALL)
    assert own.registry.current == "2"
    found = own.look()

    assert isinstance(found.action, RollBack)
    assert own.router.went == [*WAY_UP, ("off", 0.0)]
    assert own.registry.moves == ["2", "1"]


def test_too_little_traffic_holds_where_it_is(tmp_path):
    own = world(tmp_path, enough=False)
    for _ in range(4):
        found = own.look(*ALL)

    assert isinstance(found.action, Hold)
    assert not found.ended
    assert own.router.went == WAY_UP[:1]


def test_a_window_that_is_over_ends_the_wait_and_people_are_told_once(tmp_path):
    window = {"window": {"length": 1, "per": "hours"}}
    plan = release_plan(STAGES[0] | window, *STAGES[1:])
    own = world(tmp_path, plan=plan, enough=False)
    own.look(*ALL)
    for _ in range(3):
        found = own.look(*ALL)

    assert isinstance(found.action, Hold)
    assert found.ended
    assert "its window of 1 hours is over" in found.action.reason
    assert own.told.count(("shadow", "Hold")) == 1


def test_a_flow_leaves_steps_that_are_anothers(tmp_path):
    own = world(tmp_path)
    own.look("shadow")
    found = own.look("shadow")

    assert isinstance(found.action, SetState)
    assert (found.carried_out, found.ended) == (False, True)
    assert own.router.went == WAY_UP[:1]


def test_nothing_goes_up_while_the_router_does_not_record(tmp_path):
    own = world(tmp_path)
    own.router.recording, own.router.why = False, "the disk is full"
    found = own.look(*ALL)

    assert isinstance(found.action, Hold)
    assert own.router.went == []


def test_a_router_that_says_nothing_of_its_health_is_not_trusted(tmp_path):
    own = world(tmp_path)
    own.router.recording = "yes"

    assert isinstance(own.look(*ALL).action, Hold)


WITHOUT_SHADOW = release_plan(STAGES[1] | {"steps": [0.25, 0.5]}, STAGES[2])


def entry_of(own, path, **changes):
    """A verdict of the stage before users, in a file, and the world that knows of it."""
    document = GO_BEFORE | {"plan_sha256": plan_sha256(own.plan), "plan_name": own.plan.name}
    path.write_text(json.dumps(document | changes), encoding="utf-8")
    own.changes = {"judge": replace(own.release().judge, entry=path)}


GO_BEFORE = {
    "schema": "specdecode.verdict/1", "status": "GO", "claim": "c", "owner": "o",
    "manifest_sha256": MANIFEST, "rows_sha256": "d" * 64, "rows": 40, "prompts": 20,
    "reasons": ["all is well"], "to_change": [], "reopen_when": [], "overturned_by": [],
    "rules": [],
}  # fmt: skip


def test_without_a_shadow_users_see_it_only_after_a_go_that_came_before(tmp_path):
    own = world(tmp_path, plan=WITHOUT_SHADOW)
    held = own.look(*ALL)
    assert isinstance(held.action, Hold)
    assert "no verdict of offline was given" in held.action.reason

    for changes in ({"status": "NO_GO"}, {"plan_sha256": "f" * 64}, {"manifest_sha256": "f" * 64}):
        entry_of(own, tmp_path / "entry.json", **changes)
        assert isinstance(own.look(*ALL).action, Hold)
    (tmp_path / "entry.json").write_text("{}")
    with pytest.raises(ConfigError, match="is no verdict"):
        own.look(*ALL)
    assert own.router.went == []

    entry_of(own, tmp_path / "entry.json")
    assert isinstance(own.climb(*ALL).action, Promote)
    assert own.router.went == SHORT_WAY[1:]
