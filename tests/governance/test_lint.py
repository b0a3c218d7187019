"""Every lint has a plan that makes it fire, and the smallest repair that makes it silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdecode.governance import load_plan
from specdecode.governance.lint import LINTS, lint
from tests.governance.plans import (
    ARMS,
    EFFECT,
    EFFECTS,
    ERROR_METRIC,
    ERRORS,
    FASTER,
    LOSSLESS,
    OFFLINE,
    SPEED_METRIC,
    STOP,
    WHY,
    small_plan,
)

TRAFFIC = {
    "source": "made up",
    "concurrency": [1],
    "longest_prompt_tokens": None,
    "longest_output_tokens": None,
    "contains": [],
}
INTERVAL = {"arm": "block", "role": "guardrail", "level": 0.95, "n_min": 20, "why": WHY}
TAIL = INTERVAL | {
    "kind": "tail_latency",
    "name": "tail",
    "metric": "tpot_s",
    "quantile": 0.95,
    "threshold": 1.1,
}
QUALITY = INTERVAL | {"kind": "quality_non_inferiority", "name": "quality", "margin": 0.3}
GAIN = INTERVAL | {"kind": "efficiency_gain", "name": "gain", "versus": "token", "threshold": 1.0}
AMPLIFICATION = INTERVAL | {"kind": "token_amplification", "name": "waste", "threshold": 2.5}
STRATA = INTERVAL | {
    "kind": "strata",
    "name": "strata",
    "measure": "speed_ratio",
    "strata": {"category": ["chat", "tool_call", "extract_json"]},
    "threshold": 1.0,
    "insufficient": "report",
}
RATE = SPEED_METRIC | {"name": "acceptance_rate", "role": "secondary", "margin": None}
CANARY = OFFLINE | {
    "name": "canary",
    "rules": [],
    "metrics": ["error_rate"],
    "method": "beta-binomial",
    "unit": "request",
    "n_max": 10_000,
    "steps": [0.05, 0.25],
}


def arms(**of_block):
    """The arms of the small plan, block changed."""
    return [ARMS[0], ARMS[1], ARMS[2] | of_block]


def engine(name, **settings):
    return {"arms": arms(engine={"name": name, "settings": settings})}


def stop(**changes):
    return {"stop_conditions": [STOP | changes]}


def effects(**changes):
    return {"power": {"wanted": 0.8, "effects": EFFECTS | changes}}


def speed(ratio, **changes):
    return effects(arms={"token": EFFECT, "block": EFFECT | {"speed_ratio": ratio}}, **changes)


def live(*names, **changes):
    """A plan whose canary watches these metrics besides errors."""
    watched = [
        SPEED_METRIC | {"name": name, "transform": "none", "role": "guardrail",
                        "bounds": {"low": 0, "high": 10}}
        for name in names
    ]  # fmt: skip
    stages = [OFFLINE, CANARY | {"metrics": ["error_rate", *names]}]
    return {"metrics": [SPEED_METRIC, ERROR_METRIC, *watched], "stages": stages} | changes


def rules(*more):
    return {"rules": [*({"alpha": 0.01, "why": WHY} | rule for rule in LOSSLESS), ERRORS, FASTER,
                      *more]}  # fmt: skip


BETTING = CANARY | {"method": "betting", "metrics": ["tpot_s"]}
TPOT = ERROR_METRIC | {"name": "tpot_s", "bounds": {"low": 0, "high": None}}

TIMED = ERROR_METRIC | {
    "name": "e2e_s",
    "transform": "indicator",
    "limit": 1.0,
    "direction": "higher",
    "margin": 0.9,
}
LOOKS = CANARY | {"alarm_alpha": 0.05}


def looked_at(*metrics, **changes):
    """A plan whose canary judges these metrics, its alarm_alpha stated."""
    names = [metric["name"] for metric in metrics]
    stages = [OFFLINE, LOOKS | {"metrics": names} | changes]
    return {"metrics": [SPEED_METRIC, *metrics], "stages": stages}


WATCH = {"name": "watch", "steps": None, "n_max": None}

CASES = {
    "block-one-hot": [
        ({"arms": arms(draft="prompt-lookup")}, {"arms": arms(draft="self-int8")}),
        ({"arms": arms(draft="suffix:shared")}, {"arms": arms(draft="early-exit:6")}),
        ({"arms": arms(draft_sampling="greedy")}, {"arms": arms(draft_sampling="sampled")}),
        (
            {"arms": arms(draft="suffix", verification="greedy-block")},
            {"arms": arms(draft="suffix", verification="token")},
        ),
        (engine("vllm"), engine("vllm", draft_sample_method="probabilistic")),
        (
            engine("vllm", method="ngram", draft_sample_method="probabilistic"),
            engine("vllm", **{"--draft-sample-method": "probabilistic"}),
        ),
        (
            engine("llama.cpp", **{"--spec-draft-sampling": "greedy"}),
            engine("llama.cpp", **{"--spec-draft-sampling": "probabilistic"}),
        ),
    ],
    "block-greedy": [({"sampling": ["greedy"]}, {"sampling": ["greedy", "sampled"]})],
    "rate-across-lengths": [
        (
            {"metrics": [SPEED_METRIC, RATE], "arms": arms(num_speculative_tokens=3)},
            {"metrics": [SPEED_METRIC, RATE], "arms": arms()},
        ),
    ],
    "gain-across-lengths": [
        (
            rules(GAIN) | {"arms": arms(num_speculative_tokens=3)},
            rules(GAIN)
            | {"arms": [ARMS[0], *(arm | {"num_speculative_tokens": 3} for arm in ARMS[1:])]},
        ),
    ],
    "lossy-acceptance": [
        (
            engine("vllm", speculative_config={"rejection_sample_method": "fly"}),
            engine("vllm", speculative_config={"rejection_sample_method": "block"}),
        ),
        (engine("vllm", rejection_sample_method="a-new-one"), engine("vllm")),
        (
            engine("vllm", speculative_config='{"rejection_sample_method": "fly"}'),
            engine("vllm", speculative_config='{"rejection_sample_method": "standard"}'),
        ),
        (
            engine("vllm", **{"--speculative-config.rejection_sample_method": "synthetic"}),
            engine("vllm", speculative_config="{not json"),
        ),
        (engine("vllm", synthetic_acceptance_rates=[0.9]), engine("vllm")),
        (
            engine("vllm", spec_decoding_acceptance_method="typical_acceptance_sampler"),
            engine("vllm", spec_decoding_acceptance_method="rejection_sampler"),
        ),
        (engine("vllm", posterior_threshold=0.09), engine("vllm", posterior_threshold=None)),
        (
            engine("sglang", **{"--speculative-accept-threshold-single": 0.9}),
            engine("sglang", **{"--speculative-accept-threshold-single": 1.0}),
        ),
        (
            engine("sglang", speculative_accept_threshold_acc="1.0"),
            engine("sglang", speculative_accept_threshold_acc=1),
        ),
        (
            engine("tensorrt-llm", use_relaxed_acceptance_for_thinking=True, relaxed_topk=10),
            engine("tensorrt-llm", use_relaxed_acceptance_for_thinking=False, relaxed_topk=10),
        ),
        (
            engine("tensorrt-llm", decoding_type="Medusa"),
            engine("tensorrt-llm", decoding_type="MTP"),
        ),
        (
            engine("llama.cpp", **{"--spec-synth-len": 3.4}),
            engine("llama.cpp", **{"--spec-draft-p-min": 0.4}),
        ),
        (
            engine("speculators", proposal_methods=[{"verifier_accept_k": 3}]),
            engine("speculators", proposal_methods=[{"verifier_accept_k": 1}]),
        ),
        (engine("speculators", accept_tolerance=0.1), engine("speculators", accept_tolerance=0.0)),
    ],
    "dropped-draws": [
        (
            engine("llama.cpp", spec_draft_p_min=0.4, spec_draft_sampling="probabilistic"),
            engine("llama.cpp", spec_draft_p_min=0.4, spec_draft_sampling="greedy"),
        ),
    ],
    "metric-without-margin": [
        ({"metrics": [SPEED_METRIC | {"margin": None}]}, {"metrics": [SPEED_METRIC]}),
        ({"metrics": [SPEED_METRIC, RATE | {"role": "guardrail"}]}, {"metrics": [RATE]}),
    ],
    "margin-differs": [
        ({"metrics": [SPEED_METRIC | {"margin": -0.2}]}, {"metrics": [SPEED_METRIC]}),
        ({"metrics": [ERROR_METRIC | {"margin": 0.2}]}, {"metrics": [ERROR_METRIC]}),
        (
            rules(TAIL) | {"metrics": [TPOT | {"margin": 1.1}]},
            rules(TAIL) | {"metrics": [TPOT | {"margin": 0.1}]},
        ),
    ],
    "rule-without-metric": [
        ({"metrics": [SPEED_METRIC]}, {"metrics": [SPEED_METRIC, ERROR_METRIC]}),
    ],
    "threshold-without-why": [
        (rules(TAIL | {"why": "TODO: find a better reason"}), rules(TAIL)),
        (rules(TAIL | {"why": "a tenth"}), rules(TAIL)),
    ],
    "metric-without-owner": [
        ({"metrics": [SPEED_METRIC | {"owner": None}]}, {"metrics": [SPEED_METRIC]}),
    ],
    "unbounded-metric": [
        (
            {"metrics": [TPOT], "stages": [OFFLINE, BETTING]},
            {
                "metrics": [TPOT | {"transform": "indicator", "limit": 0.1}],
                "stages": [OFFLINE, BETTING],
            },
        ),
        (
            {
                "metrics": [TPOT | {"transform": "ratio", "bounds": {"low": 0, "high": 9}}],
                "stages": [OFFLINE, BETTING],
            },
            {"metrics": [TPOT | {"bounds": {"low": 0, "high": 9}}], "stages": [OFFLINE, BETTING]},
        ),
    ],
    "stop-without-owner": [(stop(owner=None), stop())],
    "recovery-untested": [(stop(tested=None), stop())],
    "no-alarm-alpha": [
        (
            {"stages": [OFFLINE, CANARY]},
            {"stages": [OFFLINE, LOOKS]},
        ),
    ],
    "not-in-rows": [(live("cold_start_s"), live("target_tokens_per_output_token"))],
    "failures-unwatched": [
        (looked_at(TIMED), looked_at(TIMED, ERROR_METRIC)),
        (looked_at(TIMED, ERROR_METRIC | {"role": "secondary"}), looked_at(TIMED, ERROR_METRIC)),
    ],
    "not-judgeable": [
        (looked_at(TIMED | {"direction": "lower"}), looked_at(TIMED)),
        (looked_at(TIMED | {"name": "output_tokens"}), looked_at(TIMED | {"name": "ttft_s"})),
        (looked_at(TIMED | {"margin": 1.2}), looked_at(TIMED | {"margin": 0.8})),
        (
            looked_at(TIMED | {"margin": None}),
            looked_at(TIMED | {"margin": None, "role": "secondary"}),
        ),
        (looked_at(TIMED, method="quantile"), looked_at(TIMED, method="empirical-bernstein")),
        (looked_at(TIMED, method="group-sequential"), looked_at(TIMED, method="betting")),
        (looked_at(TIMED, method="e-detector"), looked_at(TIMED, method="e-detector", **WATCH)),
        (looked_at(TIMED, steps=[0.5, 1.0]), looked_at(TIMED, steps=[0.5, 0.9])),
        (
            looked_at(ERROR_METRIC | {"transform": "difference"}, **WATCH),
            looked_at(ERROR_METRIC | {"transform": "difference"}),
        ),
        (
            looked_at(ERROR_METRIC | {"transform": "indicator", "limit": 1.0}),
            looked_at(ERROR_METRIC),
        ),
        (
            looked_at(ERROR_METRIC | {"margin": 0.0}, method="e-detector", **WATCH),
            looked_at(ERROR_METRIC, method="e-detector", **WATCH),
        ),
        (
            looked_at(TIMED)
            | {"arms": [ARMS[0], ARMS[1] | {"role": "candidate"}, ARMS[2]]}
            | rules(
                *(
                    {"role": role, "arm": "token"} | rule | {"name": f"token-{i}"}
                    for i, (role, rule) in enumerate(
                        [
                            ("primary", FASTER | {"arm": "token"}),
                            ("guardrail", ERRORS | {"arm": "token"}),
                        ]
                    )
                )
            ),
            looked_at(TIMED),
        ),
        (
            {
                "stages": [
                    OFFLINE,
                    OFFLINE
                    | {
                        "name": "confirmation",
                        "rules": [],
                        "metrics": ["error_rate"],
                        "method": "betting",
                    },
                ]
            },
            {"stages": [OFFLINE, OFFLINE | {"name": "confirmation"}]},
        ),
    ],
    "alpha-over-total": [
        (
            looked_at(TIMED, alpha=0.03) | {"alpha_total": 0.05},
            looked_at(TIMED, alpha=0.025) | {"alpha_total": 0.05},
        ),
    ],
    "n-max-too-small": [
        (speed(1.15, prompt_spread=0.2), speed(1.3, prompt_spread=0.2)),
        (speed(1.05), speed(1.5)),  # the supposed effect itself misses the threshold
        (
            rules(QUALITY | {"role": "primary", "margin": 0.05}),
            rules(QUALITY | {"role": "primary", "margin": 0.2}),
        ),
        (rules(QUALITY | {"role": "primary"}) | effects(checked=0.0), rules(QUALITY)),
    ],
    "longer-than-n-max": [
        ({"prompts_expected": {"full": 41, "smoke": 4}}, {"prompts_expected": {"full": 40}}),
    ],
    "n-min-out-of-reach": [
        (rules(TAIL | {"n_min": 41}), rules(TAIL | {"n_min": 40})),
        (rules(QUALITY | {"n_min": 37}), rules(QUALITY | {"n_min": 36})),
        (rules(ERRORS | {"name": "e", "n_min": 81}), rules(ERRORS | {"name": "e", "n_min": 80})),
        (
            rules(STRATA | {"n_min": 14, "insufficient": "inconclusive"}),
            rules(STRATA | {"n_min": 14, "insufficient": "report"}),
        ),
        (
            rules(STRATA | {"n_min": 10, "insufficient": "inconclusive"})
            | effects(shares={"category": {"chat": 0.6, "tool_call": 0.2, "extract_json": 0.2}}),
            rules(STRATA | {"n_min": 10, "insufficient": "inconclusive"}),
        ),
    ],
    "no-tail-guardrail": [
        (rules(TAIL | {"role": "secondary"}), rules(TAIL)),
        (rules(TAIL | {"arm": "token"}), rules(TAIL)),
    ],
    "no-quality-guardrail": [
        (rules(QUALITY | {"role": "secondary"}), rules(QUALITY)),
        (rules(STRATA), rules(STRATA | {"measure": "quality_difference"})),
    ],
    "no-tool-stratum": [
        (
            {"traffic": TRAFFIC | {"contains": ["tool_calls"]}},
            rules(STRATA) | {"traffic": TRAFFIC | {"contains": ["tool_calls"]}},
        ),
        ({"traffic": TRAFFIC | {"contains": ["tool_calls"]}}, {"traffic": TRAFFIC}),
    ],
    "no-structured-stratum": [
        (
            rules(STRATA | {"role": "secondary"})
            | {"traffic": TRAFFIC | {"contains": ["structured_output"]}},
            rules(STRATA) | {"traffic": TRAFFIC | {"contains": ["structured_output"]}},
        ),
    ],
    "no-crossover": [(live(), live("crossover_concurrency")), (live(), {})],
    "one-concurrency": [(live(), live(traffic=TRAFFIC | {"concurrency": [1, 8]}))],
    "no-kv-capacity": [
        (live("kv_capacity_tokens"), live("kv_capacity_tokens", "longest_context_tokens")),
    ],
    "no-prefix-cache": [(live(), live("prefix_cache_hit_rate"))],
    "no-amplification": [
        (live(), live("target_tokens_per_output_token")),
        (live(), live() | rules(AMPLIFICATION)),
    ],
    "no-cold-start": [(live(), live("cold_start_s"))],
}


def codes(fields):
    short = {"stages": [OFFLINE | {"n_max": 40}]}
    return {finding.code for finding in lint(small_plan(**(short | fields)))}


def test_every_lint_has_a_case():
    names = [entry.code for entry in LINTS]

    assert len(names) == len(set(names))
    assert set(CASES) == set(names)


@pytest.mark.parametrize(
    ("code", "faulty", "repaired"),
    [(code, *case) for code, cases in CASES.items() for case in cases],
    ids=[f"{code}-{index}" for code, cases in CASES.items() for index in range(len(cases))],
)
def test_a_lint_fires_on_the_fault_and_is_silent_after_its_repair(code, faulty, repaired):
    assert code in codes(faulty)
    assert code not in codes(repaired)


def test_a_finding_says_where_and_what_to_do():
    found = next(f for f in lint(small_plan(**stop(owner=None))) if f.code == "stop-without-owner")

    assert "replies are wrong" in found.message
    assert found.remedy


def test_errors_come_before_warnings():
    severities = [f.severity for f in lint(small_plan(metrics=[SPEED_METRIC | {"owner": None}]))]

    assert severities == sorted(severities)
    assert {"error", "warning"} == set(severities)


def test_a_metric_that_no_stage_looks_at_is_not_watched():
    fields = live("cold_start_s")
    fields["stages"] = [OFFLINE, CANARY]

    assert "no-cold-start" in codes(fields)


def test_the_default_plan_has_nothing_to_find():
    assert lint(load_plan("plans/default.yaml")) == []


def test_the_page_lists_every_lint():
    page = Path("docs/plan.md").read_text("utf-8")

    assert [entry.code for entry in LINTS if f"`{entry.code}`" not in page] == []
    assert [e.code for e in LINTS if e.severity == "warning"] == ["rule-without-metric"]
