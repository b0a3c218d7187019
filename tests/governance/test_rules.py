"""Each kind of rule passes, fails and abstains where it should."""

from __future__ import annotations

import pytest

from specdecode.governance import Outcome, Status, decide
from specdecode.measurement.records import to_table
from tests.governance.plans import WHY, small_plan
from tests.measurement.factories import audit, run

COMMON = {"name": "rule", "arm": "block", "role": "guardrail", "why": WHY, "level": 0.95}
INTERVAL = COMMON | {"n_min": 8}
SPEED = INTERVAL | {"kind": "speed_ratio", "threshold": 1.1}
QUALITY = INTERVAL | {"kind": "quality_non_inferiority", "margin": 0.1}
TAIL = INTERVAL | {
    "kind": "tail_latency",
    "metric": "tpot_s",
    "quantile": 0.95,
    "threshold": 1.1,
}
LENGTH = INTERVAL | {"kind": "acceptance_length", "threshold": 2.0}
AMPLIFICATION = INTERVAL | {"kind": "token_amplification", "threshold": 2.5}
GAIN = INTERVAL | {"kind": "efficiency_gain", "versus": "token", "threshold": 1.0}
ERRORS = COMMON | {"kind": "error_rate", "max_rate": 0.04, "n_min": 20}
STRATA = INTERVAL | {
    "kind": "strata",
    "measure": "speed_ratio",
    "strata": {"sampling": ["greedy", "sampled"], "difficulty": ["normal", "hard"]},
    "threshold": 1.0,
    "n_min": 4,
    "insufficient": "inconclusive",
}


def entries(rule, rows, **changes):
    """The rule's own entries and the status of the verdict."""
    verdict = decide(small_plan(rule | changes), to_table(rows), audit(rows))
    assert verdict.status is not Status.INVALID, verdict.reasons
    return [entry for entry in verdict.rules if entry.name == "rule"], verdict.status


def only(rule, rows, **changes):
    found, status = entries(rule, rows, **changes)
    assert len(found) == 1
    return found[0], status


def slower_tail(fields):
    if fields["arm"] == "block" and int(fields["prompt_id"][1:]) % 2 == 0:
        return fields | {"e2e_s": fields["e2e_s"] * 9, "ttft_s": fields["ttft_s"] * 9,
                         "tpot_s": fields["tpot_s"] * 9}  # fmt: skip
    return fields


def poor_draft(fields):
    if fields["arm"] == "block":
        steps = fields["output_tokens"] - 1
        return fields | {
            "steps": steps,
            "drafted": 4 * steps,
            "accepted": 1,
            "acceptance_histogram": [steps - 1, 1, 0, 0, 0],
            "target_tokens": 5 * steps,
        }
    return fields


def failing(fields):
    if fields["arm"] == "block" and fields["prompt_id"] == "p0003":
        return fields | {"error": "NaN logits"}
    return fields


def slow_when_hard(fields):
    if fields["arm"] == "block" and fields["difficulty"] == "hard":
        return fields | {key: fields[key] * 3 for key in ("ttft_s", "e2e_s", "tpot_s")}
    return fields


CASES = {
    "speed": (SPEED, {"speed": 1.5}, {"speed": 0.9}),
    "quality": (
        QUALITY | {"margin": 0.4},
        {"prompts": 40},
        {"prompts": 40, "candidate_quality": 0.0},
    ),
    "tail": (TAIL, {}, {"change": slower_tail}),
    "length": (LENGTH, {}, {"change": poor_draft}),
    "amplification": (AMPLIFICATION, {}, {"change": poor_draft}),
    "gain": (GAIN | {"threshold": 0.8}, {}, {"change": poor_draft}),
    "errors": (ERRORS, {}, {"change": failing}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("role", ["guardrail", "secondary"])
def test_each_rule_passes_on_good_rows_and_fails_on_harm(name, role):
    rule, good, bad = CASES[name]
    passed, good_status = only(rule, run(**({"prompts": 20} | good)), role=role)
    failed, bad_status = only(rule, run(**({"prompts": 20} | bad)), role=role)

    assert (passed.outcome, passed.remedy) == (Outcome.PASS, None)
    assert failed.outcome is Outcome.FAIL
    assert failed.remedy
    assert failed.low <= failed.estimate <= failed.high
    assert failed.n in (20, 35, 40)  # prompts, prompts with a checker, requests
    # A secondary rule reports the same finding and leaves the decision alone.
    assert good_status is Status.GO
    assert bad_status is (Status.NO_GO if role == "guardrail" else Status.GO)


@pytest.mark.parametrize("name", CASES)
def test_each_rule_abstains_under_its_n_min_and_holds_the_decision(name):
    rule, good, _ = CASES[name]
    found, status = only(rule, run(**({"prompts": 20} | good)), n_min=500)

    assert found.outcome is Outcome.INSUFFICIENT
    assert "500" in found.remedy
    assert status is Status.INCONCLUSIVE


def test_a_primary_rule_must_be_shown_where_a_guardrail_only_alarms():
    rows = run(20, speed=1.1)  # as fast as the threshold asks: the interval straddles it
    primary, held = only(SPEED, rows, role="primary", n_min=20)
    guardrail, free = only(SPEED, rows, role="guardrail")

    assert primary.low < 1.1 < primary.high
    assert (primary.outcome, held) == (Outcome.UNDECIDED, Status.INCONCLUSIVE)
    assert (guardrail.outcome, free) == (Outcome.PASS, Status.GO)


def test_quality_counts_only_prompts_with_a_checker():
    found, _ = only(QUALITY, run(24), margin=0.9)

    assert found.n == 21  # every eighth prompt has none


def test_the_only_prompt_with_a_checker_is_counted_though_it_gives_no_interval():
    def unchecked(fields):
        return fields | ({} if fields["prompt_id"] == "p0001" else {"quality": None})

    found, _ = only(QUALITY, run(24, change=unchecked))

    assert (found.outcome, found.n, found.low) == (Outcome.INSUFFICIENT, 1, None)
    assert "1 prompts" in found.reason


def test_a_rule_may_look_at_one_sampling_setting():
    def slow_greedy(fields):
        if fields["arm"] == "block" and fields["sampling"]["name"] == "greedy":
            return fields | {key: fields[key] * 3 for key in ("ttft_s", "e2e_s", "tpot_s")}
        return fields

    rows = run(20, change=slow_greedy)

    assert only(SPEED, rows, sampling="greedy")[0].outcome is Outcome.FAIL
    assert only(SPEED, rows, sampling="sampled")[0].outcome is Outcome.PASS


def test_one_slow_stratum_is_no_go_though_the_average_is_fast():
    found, status = entries(STRATA, run(24, change=slow_when_hard))
    overall, _ = only(SPEED, run(24, change=slow_when_hard), threshold=1.0)

    assert overall.outcome is Outcome.PASS
    assert {e.stratum: e.outcome for e in found} == {
        "sampling=greedy": Outcome.PASS,
        "sampling=sampled": Outcome.PASS,
        "difficulty=normal": Outcome.PASS,
        "difficulty=hard": Outcome.FAIL,
    }
    assert status is Status.NO_GO


def test_strata_share_the_level_among_them():
    found, _ = entries(STRATA, run(24))

    assert [entry.level for entry in found] == pytest.approx([1 - 0.05 / 4] * 4)


def test_a_stratum_that_vanished_is_missed():
    strata = {"category": ["chat", "poetry"]}
    found, status = entries(STRATA, run(80), strata=strata)

    assert [(e.stratum, e.outcome, e.n) for e in found] == [
        ("category=chat", Outcome.PASS, 5),
        ("category=poetry", Outcome.INSUFFICIENT, 0),
    ]
    assert status is Status.INCONCLUSIVE


def test_a_thin_stratum_may_be_reported_only_but_is_never_a_pass():
    strata = {"category": ["chat", "poetry"]}
    found, status = entries(STRATA, run(80), strata=strata, insufficient="report")

    assert found[1].outcome is Outcome.INSUFFICIENT
    assert status is Status.GO


def test_a_reported_stratum_with_shown_harm_still_is_no_go():
    _, status = entries(STRATA, run(24, change=slow_when_hard), insufficient="report")

    assert status is Status.NO_GO


def test_strata_of_quality_alarm_on_loss():
    strata = {"difficulty": ["normal"]}
    measure = {"measure": "quality_difference", "threshold": -0.1, "strata": strata}
    good, _ = entries(STRATA, run(40), **measure | {"threshold": -0.6})
    bad, status = entries(STRATA, run(40, candidate_quality=0.0), **measure)

    assert good[0].outcome is Outcome.PASS
    assert (bad[0].outcome, status) == (Outcome.FAIL, Status.NO_GO)


def test_few_failures_are_not_excused_by_a_wide_interval():
    found, status = only(ERRORS, run(20, change=failing))

    assert (found.estimate, found.n) == (0.05, 40)
    assert found.low < 0.04
    assert status is Status.NO_GO
    assert "p0003/greedy/block" in found.reason


def test_the_plans_draft_length_is_checked_where_it_names_one():
    arms = [dict(arm) for arm in small_plan().model_dump()["arms"]]
    arms[2]["num_speculative_tokens"] = 5
    rows = run(20)
    verdict = decide(small_plan(arms=arms), to_table(rows), audit(rows))

    assert verdict.status is Status.INVALID
    assert any("should draft 5 tokens a step" in line for line in verdict.reasons)
