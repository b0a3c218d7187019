"""/gate says yes to a GO on what the router has, /gate/rollback to harm; to nothing else."""

from __future__ import annotations

import json

import pytest

from specdecode.rollout.gate import gate, rollback
from specdecode.rollout.state import RolloutState

ON, OTHER = "a" * 64, "b" * 64
OFF = RolloutState()
CANARY = RolloutState(version=1, mode="canary", share=0.05, manifest_sha256=ON)


def written(folder, **verdict):
    path = folder / "verdict.json"
    path.write_text(json.dumps(verdict))
    return path


def test_a_go_on_the_same_manifest(tmp_path):
    verdict = {"status": "GO", "manifest_sha256": ON, "stage": "canary", "rules": []}

    assert gate(written(tmp_path, **verdict), CANARY) == (True, verdict)


@pytest.mark.parametrize("status", ["NO_GO", "INCONCLUSIVE", "INVALID", "OVERRIDDEN", "go", ""])
def test_whatever_else_is_told_as_it_is_and_is_a_no(tmp_path, status):
    verdict = {"status": status, "manifest_sha256": ON}

    assert gate(written(tmp_path, **verdict), CANARY) == (False, verdict)


def test_an_invalid_one_on_no_manifest_is_told_as_it_is(tmp_path):
    verdict = {"status": "INVALID", "manifest_sha256": None}

    assert gate(written(tmp_path, **verdict), CANARY) == (False, verdict)


@pytest.mark.parametrize("judged", [OTHER, None], ids=["another", "none"])
def test_a_go_on_something_else_is_none(tmp_path, judged):
    verdict = {"status": "GO", "manifest_sha256": judged}
    go, told = gate(written(tmp_path, **verdict), CANARY)

    assert (go, told["status"], told["verdict"]) == (False, "INCONCLUSIVE", verdict)
    assert "aaaaaaaaaaaa…" in told["reason"]


def test_a_go_of_another_stage_is_none(tmp_path):
    verdict = {"status": "GO", "manifest_sha256": ON, "stage": "shadow"}
    go, told = gate(written(tmp_path, **verdict), CANARY)

    assert (go, told["status"]) == (False, "INCONCLUSIVE")
    assert "stage shadow" in told["reason"]


@pytest.mark.parametrize("step", ["0.25", 0.25, "half"], ids=["text", "number", "word"])
def test_a_go_of_another_step_is_none(tmp_path, step):
    verdict = {"status": "GO", "manifest_sha256": ON, "stage": "canary", "step": step}
    go, told = gate(written(tmp_path, **verdict), CANARY)

    assert (go, told["status"]) == (False, "INCONCLUSIVE")
    assert f"step {step}, and the router is in step 0.05" in told["reason"]


@pytest.mark.parametrize("step", ["0.05", "0.050", 0.05, None], ids=["text", "zero", "number", ""])
def test_a_go_of_this_step_counts_however_it_is_spelt(tmp_path, step):
    verdict = {"status": "GO", "manifest_sha256": ON, "stage": "canary", "step": step}

    assert gate(written(tmp_path, **verdict), CANARY) == (True, verdict)


def test_a_go_of_a_step_is_none_where_there_are_no_steps(tmp_path):
    full = CANARY.model_copy(update={"mode": "full", "share": 1.0})
    go, told = gate(written(tmp_path, status="GO", manifest_sha256=ON, step="0.05"), full)

    assert not go
    assert "the router is in watch" in told["reason"]


@pytest.mark.parametrize("judge", [gate, rollback], ids=["gate", "rollback"])
def test_a_caller_that_names_a_manifest_hears_of_no_other(tmp_path, judge):
    status = {gate: "GO", rollback: "NO_GO"}[judge]
    path = written(tmp_path, status=status, manifest_sha256=ON)
    yes, told = judge(path, CANARY, OTHER)

    assert judge(path, CANARY, ON)[0]
    assert (yes, told["status"]) == (False, "INCONCLUSIVE")
    assert "asked was about bbbbbbbbbbbb…" in told["reason"]


def test_in_mode_off_any_go_will_do(tmp_path):
    go, _ = gate(written(tmp_path, status="GO", manifest_sha256=OTHER), OFF)

    assert go


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'"GO"', b'{"status": 1}', b"{}", b"[" * 100_000, b"\xff\xfe"],
    ids=["empty", "cut", "list", "text", "number", "none", "deep", "binary"],
)  # fmt: skip
def test_what_cannot_be_read_is_a_no_with_a_reason(tmp_path, content):
    path = tmp_path / "verdict.json"
    path.write_bytes(content)
    go, told = gate(path, CANARY)

    assert (go, told["status"]) == (False, "INCONCLUSIVE")
    assert "cannot be read" in told["reason"]


def test_no_verdict_yet(tmp_path):
    go, told = gate(tmp_path / "verdict.json", CANARY)

    assert (go, told["status"]) == (False, "INCONCLUSIVE")
    assert "no verdict yet" in told["reason"]


def test_a_folder_in_its_place(tmp_path):
    assert gate(tmp_path, CANARY)[0] is False


def test_a_router_without_one():
    go, told = gate(None, CANARY)

    assert (go, told["status"]) == (False, "INCONCLUSIVE")
    assert "--verdict" in told["reason"]


TAKEN_BACK = RolloutState(version=2, manifest_sha256=ON)


@pytest.mark.parametrize("state", [CANARY, TAKEN_BACK], ids=["canary", "off"])
@pytest.mark.parametrize("status", ["NO_GO", "INVALID"])
def test_harm_on_this_manifest_is_a_reason_to_go_back(tmp_path, status, state):
    verdict = {"status": status, "manifest_sha256": ON, "stage": "shadow"}

    assert rollback(written(tmp_path, **verdict), state) == (True, verdict)


@pytest.mark.parametrize("status", ["GO", "INCONCLUSIVE", "no_go", ""])
def test_nothing_else_is(tmp_path, status):
    verdict = {"status": status, "manifest_sha256": ON}

    assert rollback(written(tmp_path, **verdict), CANARY) == (False, verdict)


@pytest.mark.parametrize("judged", [OTHER, None], ids=["another", "none"])
@pytest.mark.parametrize("status", ["NO_GO", "INVALID"])
def test_harm_on_something_else_takes_nothing_back(tmp_path, status, judged):
    verdict = {"status": status, "manifest_sha256": judged}
    back, told = rollback(written(tmp_path, **verdict), CANARY)

    assert (back, told["status"], told["verdict"]) == (False, "INCONCLUSIVE", verdict)


def test_where_nothing_began_there_is_nothing_to_take_back(tmp_path):
    back, told = rollback(written(tmp_path, status="NO_GO", manifest_sha256=ON), OFF)

    assert not back
    assert "nothing to take back" in told["reason"]


def test_no_verdict_takes_nothing_back(tmp_path):
    torn = tmp_path / "torn.json"
    torn.write_text('{"status": "NO_GO"')

    for path in (None, tmp_path / "none.json", torn):
        assert rollback(path, CANARY)[0] is False
