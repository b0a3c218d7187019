"""Every check of the verifier has been made to fail, alone, beside a bundle on which it passes."""

from __future__ import annotations

import ast
import inspect

import pytest

from specdecode.governance import integrity
from specdecode.governance.verifier import verify
from specdecode.governance.verifier.verify import CHECKS
from specdecode.governance.verifier.verify import integrity as of_rows
from tests.governance.faults.verifier import ELSEWHERE, FAULTS, PASSED, waved_through


def verified(make, folder):
    """Exit code, names of the checks that found something, and their texts by name."""
    path = folder / "made.zip"
    path.write_bytes(make(folder))
    result = verify(path)
    found = {c["name"]: c["text"] for c in result["checks"] if c["result"] not in ("ok", "waived")}
    return result["exit_code"], set(found), found


def test_every_check_has_a_planted_fault():
    assert sorted(fault.check for fault in FAULTS) == sorted(CHECKS)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.check for fault in FAULTS])
def test_only_the_check_meant_fails_and_beside_it_none_does(tmp_path, fault):
    code, wrong, texts = verified(fault.faulty, tmp_path)

    assert (code, wrong) == (fault.code, {fault.check})
    assert fault.cause in texts[fault.check]
    assert verified(fault.neighbour, tmp_path) == (0, set(), {})


def test_the_verifier_makes_every_check_of_rows_that_the_gate_makes():
    (looked_at,) = (
        [ast.literal_eval(key) for key in node.value.keys]
        for node in ast.walk(ast.parse(inspect.getsource(of_rows)))
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict)
    )

    assert looked_at == list(integrity.CHECKS)
    assert {*PASSED, *ELSEWHERE} == {*looked_at, "complete"}


@pytest.mark.parametrize("check", PASSED)
def test_a_verdict_cannot_say_that_rows_passed_a_check_they_do_not_pass(tmp_path, check):
    code, wrong, texts = verified(waved_through(check), tmp_path)

    assert code == 3
    assert "integrity" in wrong
    assert texts["integrity"].startswith((f"{check} is not in order", f"{check}: the plan expects"))
