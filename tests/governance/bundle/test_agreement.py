"""The verifier agrees with `decide` on all that can be measured."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode.governance import Status
from specdecode.governance.verifier import text_of, verify
from tests.governance.bundle.looks import BIASED, UNDECIDED, wrong
from tests.governance.bundles import RULES, case, report
from tests.governance.test_decide import BROKEN
from tests.measurement.factories import run

STATUSES = {
    "go": ({}, Status.GO),
    "slow": ({"rows": run(24, speed=0.8)}, Status.NO_GO),
    "poor": ({"rows": run(24, candidate_quality=0.0)}, Status.GO),  # quality only reports
    "between": ({"rows": run(24, speed=1.1)}, Status.INCONCLUSIVE),
    "few": ({"prompts": 16}, Status.INCONCLUSIVE),
    "early": ({"prompts": 8}, Status.INCONCLUSIVE),
    "biased": ({"reports": {"block": BIASED}}, Status.NO_GO),
    "impossible tokens": (
        {"reports": {"block": report("biased") | {"first_evidence": {"kind": "impossible token"},
         "sampled": {"verdict": "biased", "tokens": 3000, "impossible": 1}}}},
        Status.NO_GO,
    ),
    "biased when greedy": (
        {"reports": {"block": report() | {"verdict": "biased", "greedy": {
            "verdict": "biased", "failures": 9, "tokens": 3000, "min_tokens": 459}}}},
        Status.NO_GO,
    ),
    "undecided": ({"reports": {"block": UNDECIDED}}, Status.INCONCLUSIVE),
    "undecided control": ({"reports": {"plain": UNDECIDED}}, Status.INCONCLUSIVE),
    "biased control": ({"reports": {"plain": BIASED}}, Status.INVALID),
    "only greedy rows read": (
        {"reports": {"block": report(tokens=0) | {"sampled": None}}}, Status.INCONCLUSIVE),
    "not greedy at all": (
        {"reports": {arm: report() | {"greedy": None} for arm in ("plain", "token", "block")}},
        Status.GO,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATUSES)
def test_the_verifier_agrees_with_decide(tmp_path, name):
    arguments, status = STATUSES[name]
    made = case(**arguments)

    verification = verify(made.write(tmp_path))

    assert made.verdict.status is status
    assert verification["status"] == status
    assert verification["exit_code"] == made.verdict.exit_code
    assert wrong(verification) == {}


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "no rows"])
def test_rows_that_are_not_the_planned_evidence_are_invalid_and_not_tampered(tmp_path, name):
    made = case(RULES[0], rows=BROKEN[name][0])

    verification = verify(made.write(tmp_path))

    assert made.verdict.status is Status.INVALID
    assert verification["exit_code"] == 12
    assert wrong(verification) == {}


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.fixed_dictionaries(
        {
            "seed": st.integers(0, 1000),
            "speed": st.floats(0.7, 2.0),
            "candidate_quality": st.floats(0, 1),
        }
    ),
    st.integers(0, 3),
    st.integers(0, 5),
    st.booleans(),
)
def test_whatever_was_measured_the_numbers_are_found_again(
    tmp_path, how, dropped, failing, stalled
):
    def change(records):
        kept = [r for i, r in enumerate(records) if i % 50 >= dropped]
        return [
            r.model_copy(update={"error": "out of memory"})
            if r.arm == "block" and int(r.prompt_id[1:]) < failing
            else r.model_copy(update={"output_tokens": 0, "output_token_ids": []})
            if stalled and r.prompt_id == "p0007" and r.sampling_name == "sampled"
            else r
            for r in kept
        ]

    made = case(rows=run(24, **how), change=change, missing_data={"max_missing_share": 0.4})

    verification = verify(made.write(tmp_path))

    assert wrong(verification) == {}, text_of(verification)
    assert verification["status"] == made.verdict.status


def test_a_stage_of_the_plan_is_checked_by_its_own_rules(tmp_path):
    offline = {"name": "offline", "rules": None, "metrics": [], "method": "fixed-n",
               "alpha": 0.025, "unit": "prompt", "n_min": 20, "n_max": 40, "window": None,
               "missing_data": None}  # fmt: skip
    fewer = {
        "name": "confirmation",
        "rules": ["block-lossless", "token-lossless", "block-errors", "block-faster"],
        "prompts_expected": {"full": 24},
    }
    made = case(
        rows=[r.model_copy(update={"stage": "confirmation"}) for r in run(24)],
        stages=[offline, offline | fewer],
        stage="confirmation",
    )

    verification = verify(made.write(tmp_path))

    assert len({e.name for e in made.verdict.rules if e.role != "integrity"}) == 4
    assert verification["status"] == made.verdict.status == "GO", text_of(verification)
