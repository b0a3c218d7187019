"""Are the rows of a live stage evidence for it? The checks of integrity.py, as far as they apply.

Users decide what comes: not every setting has to occur, no fixed number of prompts makes a stage
complete, and only a shadow sends one request to both arms. In exchange rows need a time, and a
canary's arms must get their shares.

A share of missing numbers or failures says little after three requests. So it makes the rows
INVALID from `n_min` requests on, and holds the decision before. So does an arm without rows: of
the first requests of a 5 % canary, most often none is the candidate's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from specdecode.governance.integrity import CHECKS, Inputs, Problem, entry, exactly, misnamed, some
from specdecode.governance.live import copies
from specdecode.governance.live.alarms import metrics_of, step_names
from specdecode.governance.live.rows import LiveRows
from specdecode.governance.live.sample_ratio import mismatches
from specdecode.governance.live.scope import step_of
from specdecode.governance.live.values import lacking
from specdecode.governance.plan_stages import Stage
from specdecode.governance.verdict import Outcome, RuleResult
from specdecode.measurement.keys import SHOWN, Shown

_AS_EVER = (
    "rows_present", "unique", "manifest", "audit_of_these_rows", "plan_of_these_rows", "stage",
    "numbers_agree", "speculation",
)  # fmt: skip


def check_live(
    inputs: Inputs, stage: Stage, rows: LiveRows, without_reply: Mapping[str, int] | None = None
) -> list[RuleResult]:
    """Every check that applies to a live stage, in a fixed order.

    Args:
        inputs: what the checks look at.
        stage: that is judged.
        rows: of it.
        without_reply: copies for a shadow that were to be made and have no reply, by why; None
            where rows alone are known.
    """
    silent = copies.without_reply(inputs.plan, stage, rows, without_reply or {})
    if not len(rows):
        return [_nothing_yet(stage) if silent is None else silent]
    looks = [entry(name, CHECKS[name](inputs)) for name in _AS_EVER]
    looks.append(_arms(inputs, stage, rows))
    for name, check in _CHECKS.items():
        looks.append(entry(name, check(inputs, stage, rows)))
    for name, share in _SHARES.items():
        looks.append(_shared(name, share(inputs, stage, rows), inputs, stage))
    return looks if silent is None else [*looks, silent]


def arm_awaited(checks: Iterable[RuleResult]) -> bool:
    """Whether an arm has no rows as yet, so that no rule can say anything about it."""
    return any(e.name == "integrity/arms" and e.outcome is Outcome.INSUFFICIENT for e in checks)


def _nothing_yet(stage: Stage) -> RuleResult:
    return RuleResult(
        name="integrity/rows_present",
        kind="integrity",
        role="integrity",
        outcome=Outcome.INSUFFICIENT,
        reason=f"{stage.name} has no rows yet",
        remedy=f"let {stage.name} go on until there are rows",
        n=0,
    )


def _arms(inputs: Inputs, stage: Stage, rows: LiveRows) -> RuleResult:
    """An arm too many is wrong at once, one too few only once its absence is no chance.

    In a canary the test of the sample ratio says when that is. Elsewhere every request should have
    had a row of the arm, so `n_min` requests without one are enough.
    """
    plan, own = inputs.plan, Counter(rows.texts["arm"].tolist())
    wanted = plan.candidates if stage.name == "watch" else [plan.baseline, *plan.candidates]
    known = {arm.name for arm in plan.arms} if stage.name != "canary" else set(wanted)
    # Arms beside those compared are measured in other stages; in a canary they would get traffic.
    found = set(own) - (known - set(wanted))
    requests = max(own.values())
    if found <= set(wanted) and (stage.name == "canary" or requests < stage.n_min):
        return _held("arms", _without(stage, wanted, found), requests)
    return entry("arms", exactly("arm", wanted, found))


def _without(stage: Stage, wanted: list[str], found: set[str]) -> Problem:
    missing = sorted(set(wanted) - found)
    if not missing:
        return None
    return f"no rows of arm {some(missing)} yet", f"let {stage.name} go on until it has rows"


def _sampling(inputs: Inputs, _stage: Stage, _rows: LiveRows) -> Problem:
    found = {settings.name for settings in inputs.survey.settings}
    named = [name for name in inputs.plan.sampling if name in found]
    problem = exactly("sampling setting", named, found)
    return problem or misnamed(inputs, "record the setting that the request asked for")


def _same_inputs(inputs: Inputs, stage: Stage, _: LiveRows) -> Problem:
    return CHECKS["same_inputs"](inputs) if stage.name == "shadow" else None


def _in_time(_inputs: Inputs, _stage: Stage, rows: LiveRows) -> Problem:
    without = rows.ids[~rows.timed].tolist()
    if not without:
        return None
    return (
        f"rows have no started_at: {some(sorted(without))}",
        "record when each request began; without it no look came before another",
    )


def _steps(_inputs: Inputs, stage: Stage, rows: LiveRows) -> Problem:
    if stage.steps is None:
        return None
    names = step_names(stage)
    wrong = {str(p) for p in set(rows.texts["profile"].tolist()) if step_of(p) not in names}
    if not wrong:
        return None
    return (
        f"rows of profile {some(sorted(wrong))}, which is no step of the canary",
        f"record the share of the step as profile: {', '.join(map(str, names))}",
    )


def _sample_ratio(inputs: Inputs, stage: Stage, rows: LiveRows) -> Problem:
    found = mismatches(inputs.plan, stage, rows)
    if not found:
        return None
    told = [
        f"in step {each.step} {inputs.plan.candidates[0]} got {each.share:.2%} of {each.counted} "
        f"{'units with numbers' if each.usable else 'units'} (alarm after {each.at})"
        for each in found
    ]
    return (
        "; ".join(told),
        "find out who assigns, routes or records the arms differently; nothing can be compared "
        "before that",
    )


_CHECKS: dict[str, Callable[[Inputs, Stage, LiveRows], Problem]] = {
    "sampling": _sampling,
    "same_inputs": _same_inputs,
    "in_time": _in_time,
    "steps": _steps,
    "sample_ratio": _sample_ratio,
}

Share = tuple[list[str], int, str]
"""Names of the requests that are wrong, of how many, and what is wrong with them."""


def _missing(inputs: Inputs, stage: Stage, rows: LiveRows) -> Share:
    """Of a shadow, requests that one arm lacks; of others, the worse arm's rows without a number.

    Where a shadow has a score in one arm only, that is a gap too.
    """
    lacks = lacking(metrics_of(inputs.plan, stage), rows, inputs.plan.candidates[0])
    if stage.name != "shadow":
        worst: Share = ([], 1, "")
        for arm in (inputs.plan.baseline, *inputs.plan.candidates):
            own = np.asarray(rows.texts["arm"] == arm, dtype=np.bool_)
            names, total = rows.ids[own & lacks].tolist(), int(own.sum())
            if total and len(names) / total >= len(worst[0]) / worst[1]:
                worst = (names, total, f"requests of {arm} lack a number that is needed")
        return worst
    pair = (inputs.plan.baseline, inputs.plan.candidates[0])
    seen: dict[str, dict[str, tuple[bool, bool | None]]] = {}
    columns = zip(
        rows.prompts.tolist(),
        rows.texts["sampling"].tolist(),
        rows.texts["arm"].tolist(),
        lacks.tolist(),
        np.isnan(rows.numbers["quality"]).tolist(),
        rows.failed.tolist(),
        strict=True,
    )
    for prompt, setting, arm, lack, unscored, failed in columns:
        if arm in pair:
            rows_of = seen.setdefault(f"{prompt}/{setting}", {})
            rows_of[arm] = (lack, None if failed else unscored)
    gaps = [name for name, rows_of in seen.items() if _gap(rows_of)]
    return gaps, len(seen), "requests lack a row or a number in one of the arms"


def _gap(own: dict[str, tuple[bool, bool | None]]) -> bool:
    scores = {unscored for _, unscored in own.values() if unscored is not None}
    return len(own) < 2 or any(lack for lack, _ in own.values()) or len(scores) > 1


def _baseline_works(inputs: Inputs, stage: Stage, rows: LiveRows) -> Share:
    if stage.name == "watch":
        return [], 1, ""
    own = rows.of("arm", inputs.plan.baseline)
    return own.ids[own.failed].tolist(), max(1, len(own)), "requests of the baseline failed"


_SHARES: dict[str, Callable[[Inputs, Stage, LiveRows], Share]] = {
    "missing": _missing,
    "baseline_works": _baseline_works,
}


def _shared(name: str, found: Share, inputs: Inputs, stage: Stage) -> RuleResult:
    names, total, wrong = found
    allowed = inputs.plan.missing_data.max_missing_share
    if len(names) / total <= allowed:
        return entry(name, None)
    shown = some(Shown(sorted(names)[:SHOWN], len(names)))
    problem = (
        f"{len(names)} of {total} {wrong} ({shown}); the plan allows {allowed:.1%}",
        "find out what is lost; a gap may hide the worst results",
    )
    if total >= stage.n_min:
        return entry(name, problem)
    return _held(name, problem, total)


def _held(name: str, problem: Problem, n: int) -> RuleResult:
    """The entry of a check whose problem may be chance after so few requests."""
    early = entry(name, problem)
    return early.model_copy(update={"outcome": Outcome.INSUFFICIENT, "n": n}) if problem else early
