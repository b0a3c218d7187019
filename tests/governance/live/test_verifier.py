"""The standalone verifier knows the entries of live stages, and sees through changed ones."""

from __future__ import annotations

import zipfile
from datetime import timedelta
from functools import cache

import pytest

from specdecode.governance import Status
from specdecode.governance.verifier import verify
from specdecode.governance.verifier.verify import off_ratio, text_of
from specdecode.measurement.records import Record
from specdecode.statistics.sample_ratio import sample_ratio_test
from tests.governance.bundles import case, edited, repacked
from tests.governance.keys import ADA
from tests.governance.live.streams import (
    ACCEPTANCE,
    CANARY,
    ERRORS,
    SHADOW,
    START,
    WATCH,
    canary,
    failing,
    live_plan,
    shadow,
    watch,
    with_strata,
)

LOSSLESS = {"rules": ["block-lossless"]}


def bundle_of(plan, stage, rows):
    """A whole bundle of these rows."""
    return case(plan=plan.model_dump(mode="json", by_alias=True), stage=stage,
                rows=[Record.model_validate(row) for row in rows])  # fmt: skip


@pytest.fixture
def checked(tmp_path):
    """Verifies a case or an archive: exit code, checks that were not ok, the output."""

    def check(given):
        path = tmp_path / "bundle.zip"
        if isinstance(given, bytes):
            path.write_bytes(given)
        else:
            given.write(tmp_path)
        found = verify(path)
        wrong = {c["name"] for c in found["checks"] if c["result"] not in ("ok", "waived")}
        return found["exit_code"], wrong, text_of(found)

    return check


TALKS = [
    each | {"prompt_id": f"c{i % 300}/{i // 300}", "request_id": f"c{i:05d}/{each['arm']}",
            "started_at": START + timedelta(minutes=i % 300 + 11 * (i // 300))}
    for i, each in enumerate(canary(900, failing(0.02)))
]  # fmt: skip
TALKED = SHADOW | {"name": "canary", "unit": "conversation", "steps": [0.5], "n_min": 5}
SETTINGS = ({"name": "sampled", "temperature": 1.0}, {"name": "greedy", "temperature": 0.0})
REPEATED = [
    each | {"prompt_id": f"p{index // 4}", "sampling": SETTINGS[index // 2 % 2]}
    for index, each in enumerate(shadow(120))
]  # fmt: skip
CANARIES = canary(400)
NINETIETH = [place for place, each in enumerate(CANARIES) if each["arm"] == "block"][89]
AWAITING = CANARIES[: NINETIETH + 1] + [
    each for each in CANARIES[NINETIETH:][:40] if each["arm"] == "plain"
]
ACCEPTING = live_plan(
    WATCH | {"metrics": ["error_rate", "mean_acceptance_length"]}, metrics=(ERRORS, ACCEPTANCE)
)
UNDRAFTED = {"output_tokens": 1, "steps": None, "drafted": None, "accepted": None}
FIRST_TOKENS = [
    each | {"accepted": 10} | (UNDRAFTED if index % 4 == 0 else {})
    for index, each in enumerate(watch(200))
]

STAGES = {
    "canary, conversations": (live_plan(TALKED), "canary", TALKS),
    "shadow, prompts": (live_plan(SHADOW | {"unit": "prompt", "n_min": 5}), "shadow", REPEATED),
    "shadow, beyond n_max": (live_plan(SHADOW | {"n_max": 90}), "shadow", shadow(120)),
    "canary, beyond n_max": (live_plan(CANARY | {"n_max": 90}), "canary", CANARIES),
    "canary, at n_max": (live_plan(CANARY | {"n_max": 90}), "canary", AWAITING),
    "canary, beyond n_max conversations": (live_plan(TALKED | {"n_max": 90}), "canary", TALKS),
    "shadow, beyond the window": (
        live_plan(SHADOW | {"window": {"length": 1.5, "per": "minutes"}}), "shadow", shadow(120)),
    "shadow": (live_plan(SHADOW | LOSSLESS), "shadow", shadow(400)),
    "shadow, harm": (live_plan(SHADOW), "shadow", shadow(200, failing(0.3))),
    "shadow, few": (live_plan(SHADOW), "shadow", shadow(12)),
    "shadow, few with a gap": (live_plan(SHADOW), "shadow", shadow(12)[:-1]),
    "shadow, strata": (with_strata(), "shadow", shadow(400)),
    "canary": (live_plan(), "canary", canary(1600)),
    "canary, two steps": (
        live_plan(), "canary", canary(500, share=0.2) + canary(300, share=0.5, first=500)),
    "canary, off": (live_plan(), "canary", canary(800, share=0.3, step=0.5)),
    "canary, strata": (with_strata(), "canary", canary(900)),
    "canary, rates": (live_plan(CANARY | {"method": "beta-binomial"}), "canary", canary(900)),
    "canary, one arm": (
        live_plan(), "canary", [each for each in canary(200) if each["arm"] == "block"]),
    "canary, one arm as yet": (
        live_plan(CANARY | LOSSLESS), "canary",
        [each for each in canary(40, share=0.2) if each["arm"] == "plain"]),
    "shadow, one arm as yet": (
        live_plan(SHADOW | LOSSLESS), "shadow",
        [each for each in shadow(40) if each["arm"] == "plain"]),
    "shadow, one arm": (
        live_plan(), "shadow", [each for each in shadow(50) if each["arm"] == "block"]),
    "watch, another arm": (live_plan(), "watch", [e | {"arm": "plain"} for e in watch(20)]),
    "watch, over with the first token": (ACCEPTING, "watch", FIRST_TOKENS),
    "shadow, failures of unknown prompts": (
        live_plan(), "shadow",
        [each | {"prompt_token_ids": None if each["error"] else [1, 2]}
         for each in shadow(200, failing(0.3))]),
    "watch": (live_plan(), "watch", watch(200)),
    "watch, alarm": (live_plan(), "watch", watch(200, failing(0.4))),
    "watch, few": (live_plan(), "watch", watch(20)),
    "watch, sequence": (live_plan(WATCH | {"method": "betting"}), "watch", watch(200)),
}  # fmt: skip


@pytest.mark.parametrize("name", STAGES)
def test_an_honest_bundle_of_a_live_stage_verifies_with_its_status(checked, name):
    own = bundle_of(*STAGES[name])
    code, wrong, text = checked(own)

    assert (code, wrong) == (own.verdict.exit_code, set()), text


def test_the_cases_have_every_status():
    assert {bundle_of(*STAGES[name]).verdict.status for name in
            ("shadow", "shadow, harm", "shadow, few", "canary, off")} == set(Status)  # fmt: skip


@cache
def files(name):
    """The unsigned files of one of the cases."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = bundle_of(*STAGES[name]).write(Path(folder), key=ADA)
        with zipfile.ZipFile(path) as archive:
            found = {each: archive.read(each) for each in archive.namelist()}
    return {each: content for each, content in found.items() if each != "signature.json"}


def at(verdict, name, stratum=None):
    return next(e for e in verdict["rules"] if (e["name"], e["stratum"]) == (name, stratum))


TAMPERED = {
    "a bound": ("shadow", lambda v: at(v, "quality").update(low=-0.5),
                "quality: 'pass', where the numbers say 'undecided'"),
    "bounds upside down": ("shadow", lambda v: at(v, "quality").update(low=0.9, high=0.8),
                           "quality: the sequence is upside down"),
    "an outcome": ("shadow, harm", lambda v: at(v, "error_rate").update(outcome="pass"),
                   "error_rate: 'pass', where the numbers say 'fail'"),
    "a threshold": ("shadow", lambda v: at(v, "error_rate").update(threshold=0.5),
                    "error_rate: threshold 0.5, the plan says 0.05"),
    "a level": ("shadow", lambda v: at(v, "error_rate").update(level=0.5), "error_rate: level 0.5"),
    "a role": ("shadow", lambda v: at(v, "error_rate").update(role="secondary"),
               "role or arm is not the plan's"),
    "n": ("shadow, few", lambda v: at(v, "error_rate").update(n=60),
          "error_rate: n 60, the rows have 12"),
    "an estimate": ("shadow, strata",
                    lambda v: at(v, "error_rate", "category=chat").update(estimate=0.01),
                    "error_rate: estimate 0.01 in category=chat, the rows give 0.0"),
    "too little data called enough": (
        "shadow, few", lambda v: at(v, "error_rate").update(outcome="pass"),
        "error_rate: 'pass', where the numbers say 'insufficient'"),
    "the moment": ("shadow", lambda v: at(v, "quality").update(decided_at=None),
                   "quality: decided_at None"),
    "a moment before its time": ("shadow", lambda v: at(v, "quality").update(decided_at=3),
                                 "quality: decided before n_min"),
    "a moment after the end": ("shadow", lambda v: at(v, "quality").update(decided_at=401),
                               "quality: decided after 401 of 400 units"),
    "an alarm": ("watch, alarm", lambda v: at(v, "error_rate").update(decided_at=None),
                 "error_rate: 'fail', where the numbers say 'pass'"),
    "whether it counts": ("shadow", lambda v: at(v, "error_rate").update(counts=False),
                          "error_rate: whether it counts"),
    "a metric left out": (
        "shadow", lambda v: v.update(rules=[e for e in v["rules"] if e["name"] != "quality"]),
        "other rules than the plan has"),
    "a stratum left out": (
        "shadow, strata",
        lambda v: v["rules"].remove(at(v, "error_rate", "category=tool_call")),
        "error_rate: the steps and strata are not the plan's"),
    "a step left out": (
        "canary, two steps", lambda v: v["rules"].remove(at(v, "quality", "step=0.5")),
        "quality: the steps and strata are not the plan's"),
    "the sample ratio": (
        "canary, off", lambda v: at(v, "integrity/sample_ratio").update(outcome="pass"),
        "sample_ratio is not in order: step 0.5"),
    "a check left out": (
        "canary", lambda v: v["rules"].remove(at(v, "integrity/sample_ratio")),
        "leaves out the check sample_ratio"),
    "a gap that holds": (
        "shadow, few with a gap", lambda v: at(v, "integrity/missing").update(outcome="pass"),
        "missing is not in order: 1 of 12"),
    "an arm without rows": (
        "canary, one arm as yet", lambda v: at(v, "integrity/arms").update(outcome="pass"),
        "arms is not in order: block"),
    "an arm that is no longer awaited": (
        "shadow, one arm", lambda v: at(v, "integrity/arms").update(outcome="insufficient"),
        "arms is not in order: plain"),
    "the audit's word on an arm without rows": (
        "canary, one arm as yet", lambda v: at(v, "block-lossless").update(outcome="pass"),
        "block-lossless: 'pass', but an arm has no rows yet"),
    "the status": ("watch, few", lambda v: v.update(status="GO"),
                   "GO, where the outcomes give INCONCLUSIVE"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_a_changed_entry_is_not_what_plan_and_rows_give(checked, name):
    stage, change, cause = TAMPERED[name]
    attacked = files(stage) | {"verdict.json": edited(files(stage)["verdict.json"], change)}

    code, _, text = checked(repacked(attacked))

    assert code == 3
    assert cause in text


@pytest.mark.parametrize(("share", "seen"), [(0.2, 0.2), (0.2, 0.4), (0.05, 0.12), (0.5, 0.35)])
def test_its_test_of_shares_is_that_of_the_library(share, seen):
    import numpy as np

    rng = np.random.default_rng(5)
    for n in (0, 10, 300, 900):
        arms = rng.random(n) < seen
        alarm = sample_ratio_test(arms.astype(float), [1 - share, share], alpha=0.01).rejected_at
        assert off_ratio(arms.tolist(), share, 0.01) == (alarm is not None)
