"""The fast judge beside `decide`, and its intervals beside those of `statistics.bootstrap`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.governance import Outcome, Status, decide, load_plan
from specdecode.governance.power import suppose
from specdecode.governance.power_rows import simulated_columns, simulated_rows
from specdecode.governance.rules.base import Rule
from specdecode.governance.study_draws import Draws, quantile_interval
from specdecode.governance.study_judge import Cells, judge_run, status_of
from specdecode.statistics.bootstrap import paired_quantile_ratio_interval
from tests.governance.plans import FASTER, WHY, small_plan

SEED = 7
LEVEL = 0.9


def rule(kind, name, role, **fields):
    base = {"kind": kind, "name": name, "role": role, "arm": "block", "why": WHY}
    return base | {"level": 0.95, "n_min": 20} | fields


EVERY_KIND = small_plan(
    FASTER | {"sampling": "greedy"},
    rule("quality_non_inferiority", "quality", "primary", margin=0.1),
    rule("efficiency_gain", "gain", "primary", versus="token", threshold=1.0, sampling="sampled"),
    rule("acceptance_length", "length", "guardrail", threshold=2.0),
    rule("token_amplification", "rows", "guardrail", threshold=2.5, sampling="sampled"),
    rule("tail_latency", "ttft", "guardrail", metric="ttft_s", quantile=0.9, threshold=1.1),
    rule("tail_latency", "e2e", "guardrail", metric="e2e_s", quantile=0.5, threshold=1.1),
    rule("tail_latency", "tpot", "secondary", metric="tpot_s", quantile=0.5, threshold=1.1),
    rule(
        "strata",
        "quality-by-task",
        "guardrail",
        measure="quality_difference",
        strata={"difficulty": ["easy", "hard"], "sampling": ["sampled"]},
        threshold=-0.2,
        insufficient="report",
    ),
    prompts_expected={"full": 30},
)
DEFAULT = load_plan("plans/default.yaml")


def block(**fields):
    return {"arms": {"block": fields}}


def decided(view, run, prompts, accused):
    """Verdict of `decide` on the same rows, its audit saying what is supposed."""
    rng = np.random.default_rng([3, run])
    table = simulated_rows(view, prompts=prompts, profile="full", rng=rng)
    with_say = [rule for rule in view.rules if rule.role != "secondary"]
    view = view.model_copy(update={"rules": with_say})
    words = {arm.name: "biased" if arm.name in accused else "lossless" for arm in view.arms}
    audit = {
        "alpha": 0.01,
        "rows_sha256": decide(view, table).rows_sha256,
        "arms": {arm: {"verdict": word, "tokens_read": 9} for arm, word in words.items()},
    }
    return decide(view, table, audit)


def judged(view, run, prompts, accused):
    rng = np.random.default_rng([3, run])
    columns = simulated_columns(view, prompts=prompts, profile="full", rng=rng)
    return judge_run(view, Cells.of(view, columns), accused, Draws(view.bootstrap_seed))


@pytest.mark.parametrize(
    ("plan", "prompts", "changes", "accused"),
    [
        (DEFAULT, 100, block(speed_ratio=1.12), []),
        (DEFAULT, 100, block(speed_ratio=0.97, error_rate=0.02), []),
        (DEFAULT, 100, {}, ["token"]),
        (DEFAULT, 100, {"same_score": 1.0}, []),  # no difference varies: there is no BCa interval
        (EVERY_KIND, 30, block(speed_ratio=1.15, error_rate=0.04), ["block"]),
        (EVERY_KIND, 30, block(acceptance_length=1.9, quality_difference=-0.05), []),
        (EVERY_KIND, 30, {"checked": 0.5} | block(error_rate=0.5), []),
    ],
)
def test_every_entry_and_the_status_are_those_of_decide(plan, prompts, changes, accused):
    view = suppose(plan, changes).at("offline")
    for run in range(2):
        verdict = decided(view, run, prompts, accused)
        theirs = [entry for entry in verdict.rules if entry.role != "integrity"]
        ours = judged(view, run, prompts, accused)

        assert status_of(ours) is verdict.status
        assert [(e.name, e.stratum, e.outcome, e.counts, e.threshold) for e in ours] == [
            (e.name, e.stratum, e.outcome, e.counts, e.threshold) for e in theirs
        ]
        for own, their in zip(ours, theirs, strict=True):
            if own.kind in ("losslessness", "error_rate"):
                continue
            numbers = [(e.estimate, e.low, e.high, e.n) for e in (own, their)]
            assert (own.low is None) == (their.low is None)
            if own.low is not None:
                assert numbers[0] == pytest.approx(numbers[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([], Status.INCONCLUSIVE),
        ([Outcome.PASS], Status.GO),
        ([Outcome.PASS, Outcome.UNDECIDED], Status.INCONCLUSIVE),
        ([Outcome.PASS, Outcome.INSUFFICIENT], Status.INCONCLUSIVE),
        ([Outcome.UNDECIDED, Outcome.FAIL], Status.NO_GO),
    ],
)
def test_the_status_is_the_worst_that_counts(outcomes, status):
    plain = EVERY_KIND.rules[0]
    entries = [plain.result(outcome, WHY) for outcome in outcomes]

    assert status_of([*entries, plain.result(Outcome.INSUFFICIENT, WHY, counts=False)]) is status


def test_a_kind_of_rule_that_is_not_known_is_refused():
    class Other(Rule):
        def evaluate(self, evidence):
            return []

    other = Other(kind="other", name="new", role="guardrail", arm="block", why=WHY)
    view = EVERY_KIND.at("offline").model_copy(update={"rules": [other]})

    with pytest.raises(ConfigError, match="new: rules of kind other are not simulated"):
        judged(view, 0, 30, [])


WHOLE = st.integers(0, 6)
PROMPTS = st.integers(0, 9)


def of_size(data, elements, n):
    return np.array(data.draw(st.lists(elements, min_size=n, max_size=n)), dtype=np.float64)


def same(ours, theirs):
    if theirs is None or ours is None:
        assert ours is theirs
        return
    assert (ours.n, ours.level, ours.method) == (theirs.n, theirs.level, theirs.method)
    ends = [(i.estimate, i.low, i.high) for i in (ours, theirs)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9, abs=1e-12)


@settings(max_examples=12, deadline=None)
@given(rows=st.integers(1, 9), quantile=st.sampled_from([0.5, 0.9, 0.95]), data=st.data())
def test_a_tail_has_the_percentile_interval_of_the_bootstrap(rows, quantile, data):
    drawn = data.draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    _, clusters = np.unique(drawn, return_inverse=True)
    order = np.argsort(clusters, kind="stable")  # the bootstrap numbers them as they appear
    values = np.stack([of_size(data, st.floats(0.5, 4), rows) for _ in range(2)])[:, order]
    ours = quantile_interval(values, clusters[order], quantile, Draws(SEED), LEVEL)
    theirs = paired_quantile_ratio_interval(
        values[0], values[1], quantile, clusters=clusters[order].tolist(), level=LEVEL, seed=SEED
    )

    same(ours, theirs)
