"""Are these rows the evidence the plan asked for? Anything else makes the verdict INVALID.

Each check returns None, or what is wrong and what to do. They are always run: a plan cannot leave
one out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specdecode.governance.plan import Plan, plan_sha256
from specdecode.governance.seal import PLAN_ENTRY, fits
from specdecode.governance.survey import Survey
from specdecode.governance.verdict import Outcome, RuleResult
from specdecode.measurement.keys import SHOWN, Shown, repeated_ids

Problem = tuple[str, str] | None


@dataclass(frozen=True)
class Inputs:
    """What the checks look at.

    `rows_sha256` is the digest of the rows surveyed. Audit and manifest are None or a document, of
    which nothing is known before it was checked.
    """

    plan: Plan
    survey: Survey
    rows_sha256: str
    audit: Any
    manifest: Any


def check(inputs: Inputs) -> list[RuleResult]:
    """Every integrity check, in a fixed order; the last may also find an early end."""
    results = [entry(name, run(inputs)) for name, run in CHECKS.items()]
    return [*results, _complete(inputs)]


def unreadable(reason: str) -> RuleResult:
    """The entry for rows that are not rows at all."""
    return entry("readable", (reason, "restore the rows or measure again"))


def entry(name: str, problem: Problem) -> RuleResult:
    """What a check found, as an entry of the verdict."""
    reason, remedy = problem or ("in order", None)
    return RuleResult(
        name=f"integrity/{name}",
        kind="integrity",
        role="integrity",
        outcome=Outcome.INVALID if problem else Outcome.PASS,
        reason=reason,
        remedy=remedy,
    )


def some(names: Shown | Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    first, total = names if isinstance(names, Shown) else (names[:SHOWN], len(names))
    return ", ".join(first) + (f" and {total - SHOWN} more" if total > SHOWN else "")


def _rows_present(inputs: Inputs) -> Problem:
    return None if inputs.survey.rows else ("there are no rows", "run the measure stage")


def _unique(inputs: Inputs) -> Problem:
    keys = inputs.survey.keys
    if keys.repeated is not None:
        twice = keys.row_names(np.flatnonzero(keys.repeated))
    else:
        twice = repeated_ids(keys)
    if not twice.total:
        return None
    return (f"rows occur twice: {some(twice)}", "find out which are real; never choose by result")


def _manifest(inputs: Inputs) -> Problem:
    found = sorted(inputs.survey.manifests)
    if len(found) > 1:
        return (
            f"rows of {len(found)} different manifests are mixed",
            "measure all arms on one set of inputs",
        )
    if inputs.manifest is None or not found:
        return None
    if not isinstance(inputs.manifest, Mapping):
        return ("the manifest is not an object", "give the manifest of the rows")
    wanted = inputs.manifest.get("manifest_sha256")
    if wanted == found[0]:
        return None
    return (
        f"the rows were measured on other inputs (manifest {found[0][:12]}) than those at hand "
        f"({str(wanted)[:12]})",
        "measure again, or restore the inputs of the rows",
    )


def _audit_of_these_rows(inputs: Inputs) -> Problem:
    if inputs.audit is None:  # a plan that needs one says so itself
        return None
    if not isinstance(inputs.audit, Mapping):
        return ("the audit is not an object", "run the audit on these very rows")
    audited = inputs.audit.get("rows_sha256")
    if audited == inputs.rows_sha256:
        return None
    found = "does not say of which rows it is" if audited is None else "was made of other rows"
    return (f"the audit {found}", "run the audit on these very rows")


def _plan_of_these_rows(inputs: Inputs) -> Problem:
    """The plan must be the one sealed with the inputs, before the rows existed.

    A manifest without entries says nothing about the plan. One with entries must hash to its own
    seal, or an entry could be exchanged under the seal that the rows carry.
    """
    if not isinstance(inputs.manifest, Mapping):  # absent, or refused by `_manifest`
        return None
    entries = inputs.manifest.get("entries")
    if entries is None:
        return None
    if not fits(entries, inputs.manifest.get("manifest_sha256")):
        return ("the manifest's entries are not those it was sealed with", "restore the manifest")
    planned = entries.get(PLAN_ENTRY) if isinstance(entries, Mapping) else None
    own = plan_sha256(inputs.plan)
    if planned in (None, own):
        return None
    return (
        f"the rows were measured for another plan ({str(planned)[:12]}) than this ({own[:12]})",
        "decide by the plan the rows were measured for, or measure again for this one",
    )


def _arms(inputs: Inputs) -> Problem:
    keys = inputs.survey.keys
    found = [keys.arms[place] for place in np.unique(keys.arm()).tolist()]
    return exactly("arm", [arm.name for arm in inputs.plan.arms], found)


def _sampling(inputs: Inputs) -> Problem:
    names = [settings.name for settings in inputs.survey.settings]
    problem = exactly("sampling setting", inputs.plan.sampling, names)
    return problem or misnamed(inputs, "measure with the temperature that the setting's name says")


def misnamed(inputs: Inputs, remedy: str) -> Problem:
    """Rows of a setting that is greedy by name and not by temperature, or the other way round."""
    for name, kind in (("sampled", "greedily"), ("greedy", "with sampling")):
        wrong = inputs.survey.keys.request_ids(inputs.survey.misnamed_as(name))
        if wrong.total:
            return f"the setting {name} was measured {kind}: {some(wrong)}", remedy
    return None


def _stage(inputs: Inputs) -> Problem:
    return exactly("stage", [inputs.plan.stage], inputs.survey.stages)


def exactly(what: str, wanted: Sequence[str], found: Iterable[str]) -> Problem:
    """What is missing of those wanted, and what is there beside them."""
    missing = sorted(set(wanted) - set(found))
    foreign = sorted(set(found) - set(wanted))
    parts = []
    if missing:
        parts.append(f"no rows of {what} {some(missing)}")
    if foreign:
        parts.append(f"rows of {what} {some(foreign)}, which the plan does not have")
    return ("; ".join(parts), f"measure exactly the plan's: {some(wanted)}") if parts else None


def _same_inputs(inputs: Inputs) -> Problem:
    """The arms of one request must have seen the same prompt and the same settings."""
    differing = inputs.survey.keys.request_names(inputs.survey.unlike)
    if not differing.total:
        return None
    return (
        f"arms had different prompts, settings or labels: {some(differing)}",
        "measure all arms from one compiled prompt table",
    )


def _numbers_agree(inputs: Inputs) -> Problem:
    wrong = inputs.survey.keys.request_ids(inputs.survey.contradictory)
    if not wrong.total:
        return None
    return (f"numbers contradict each other in {some(wrong)}", "find the fault in the measurement")


def _missing(inputs: Inputs) -> Problem:
    """Requests without a usable row in every arm; failed ones are judged by the error rule.

    Of rows that occur twice, which is refused elsewhere, each has to be complete.
    """
    rows, sampling = inputs.survey, inputs.plan.sampling
    gaps = ~rows.present.all(axis=2) | rows.lacking.any(axis=2) | (rows.scored & rows.unscored)
    gaps = gaps[:, [rows.grid.settings.index(name) for name in sampling]]
    found = int(gaps.sum())
    allowed = inputs.plan.missing_data.max_missing_share
    if not gaps.size or found / gaps.size <= allowed:
        return None
    first = [
        f"{rows.keys.prompts[place // len(sampling)].as_py()}/{sampling[place % len(sampling)]}"
        for place in np.flatnonzero(gaps)[:SHOWN].tolist()
    ]
    return (
        f"{found} of {gaps.size} requests lack a row or a number in some arm "
        f"({some(Shown(first, found))}); the plan allows {allowed:.1%}",
        "complete the measurement; a gap may hide the worst results",
    )


def _baseline_works(inputs: Inputs) -> Problem:
    survey = inputs.survey
    own = survey.rows_of(inputs.plan.baseline)
    rows, failed = int(own.sum()), np.flatnonzero(own & survey.failed)
    if not rows or len(failed) / rows <= inputs.plan.missing_data.max_missing_share:
        return None
    return (
        f"the baseline failed on {len(failed)} of {rows} requests "
        f"({some(survey.keys.request_ids(failed))})",
        "repair the baseline: there is nothing to compare with",
    )


def _speculation(inputs: Inputs) -> Problem:
    """An arm must have done what the plan says it does."""
    for arm in inputs.plan.arms:
        work = inputs.survey.work[arm.name]
        if arm.draft is None and work.drafted:
            return (f"arm {arm.name} should decode plainly but drafted", "check the arm's set-up")
        if arm.draft is not None and work.rows and not work.drafted:
            return (f"arm {arm.name} never drafted a token", "check the arm's set-up")
        gamma = arm.num_speculative_tokens
        if gamma is not None and work.sizes - {gamma + 1}:
            return (
                f"arm {arm.name} should draft {gamma} tokens a step, its histograms say "
                f"{sorted(size - 1 for size in work.sizes)}",
                "measure with the plan's num_speculative_tokens",
            )
    return None


CHECKS: dict[str, Callable[[Inputs], Problem]] = {
    "rows_present": _rows_present,
    "unique": _unique,
    "manifest": _manifest,
    "audit_of_these_rows": _audit_of_these_rows,
    "plan_of_these_rows": _plan_of_these_rows,
    "arms": _arms,
    "sampling": _sampling,
    "stage": _stage,
    "same_inputs": _same_inputs,
    "numbers_agree": _numbers_agree,
    "missing": _missing,
    "baseline_works": _baseline_works,
    "speculation": _speculation,
}


def _complete(inputs: Inputs) -> RuleResult:
    """A run that ended early is INCONCLUSIVE, whatever it had measured so far.

    One that went on beyond the plan's n_max is INVALID: an interval for one look does not cover
    whoever adds prompts until a look pleases.
    """
    profiles, prompts = sorted(inputs.survey.profiles), inputs.survey.prompts
    expected = inputs.plan.prompts_expected
    wanted = expected.get(profiles[0]) if len(profiles) == 1 else None
    most = next(stage.n_max for stage in inputs.plan.stages if stage.name == inputs.plan.stage)
    if most is not None and prompts > most:
        where = f"the stage {inputs.plan.stage} looks once, at {most} at most"
        outcome, remedy = Outcome.INVALID, "judge the first complete run, as the plan has it"
        reason = f"{prompts} prompts, and {where}"
    elif wanted is not None and prompts >= wanted:
        outcome, remedy = Outcome.PASS, None
        reason = f"{prompts} prompts, at least {wanted} expected of a complete {profiles[0]} run"
    elif wanted is not None:
        outcome, remedy = Outcome.INSUFFICIENT, f"complete the run: {wanted} prompts"
        reason = f"the run ended early: {prompts} prompts of at least {wanted} ({profiles[0]})"
    else:
        outcome, remedy = Outcome.INSUFFICIENT, f"use one profile of {', '.join(sorted(expected))}"
        reason = f"the plan does not say how long a run of profile {' and '.join(profiles)} is"
    return RuleResult(
        name="integrity/complete",
        kind="integrity",
        role="integrity",
        n=prompts,
        threshold=wanted,
        outcome=outcome,
        reason=reason,
        remedy=remedy,
    )
