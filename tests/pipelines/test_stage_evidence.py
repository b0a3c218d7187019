"""What the stage takes for waiting, and what for evidence that does not hold."""

from __future__ import annotations

from pipelines.stages.evidence import waits_for_people

UNSIGNED = {
    "name": "approvals",
    "result": "failed",
    "text": "an approval as owner by another person is missing",
}


def test_a_verdict_that_nobody_could_have_signed_yet_waits_for_people():
    assert waits_for_people([UNSIGNED])


def test_nobody_is_waited_for_where_something_does_not_hold():
    broken = {"name": "rows", "result": "tampered", "text": "two rows exchanged"}
    forged = UNSIGNED | {"result": "tampered"}

    for wrong in ([], [broken], [UNSIGNED, broken], [forged]):
        assert not waits_for_people(wrong)
