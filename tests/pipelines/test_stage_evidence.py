"""What the stage says of a bundle that does not hold."""

from __future__ import annotations

from pipelines.stages.evidence import refusal

UNSIGNED = {
    "name": "approvals",
    "result": "failed",
    "text": "an approval as owner by another person is missing",
}


def test_a_verdict_that_waits_for_people_says_who_must_do_what():
    told = refusal([UNSIGNED])
    assert UNSIGNED["text"] in told
    assert "specdecode approve reports/verdict.json --plan plans/default.yaml" in told


def test_nobody_is_asked_to_sign_what_does_not_hold():
    broken = {"name": "rows", "result": "tampered", "text": "two rows exchanged"}
    forged = UNSIGNED | {"result": "tampered"}
    for wrong in ([broken], [UNSIGNED, broken], [forged]):
        told = refusal(wrong)
        assert all(check["text"] in told for check in wrong)
        assert "specdecode approve" not in told
