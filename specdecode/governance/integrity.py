"""Are these rows the evidence the plan asked for? Anything else makes the verdict INVALID.

Each check returns None, or what is wrong and what to do. They are always run: a plan cannot leave
one out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdecode.governance.consistency import agrees, asks_greedy
from specdecode.governance.plan import Plan, plan_sha256
from specdecode.governance.seal import PLAN_ENTRY, sealed_sha256
from specdecode.governance.verdict import Outcome, RuleResult
from specdecode.measurement.records import Record

Problem = tuple[str, str] | None


@dataclass(frozen=True)
class Inputs:
    """What the checks look at.

    `rows_sha256` is the digest of `records`. Audit and manifest are None or a document, of which
    nothing is known before it was checked.
    """

    plan: Plan
    records: Sequence[Record]
    rows_sha256: str
    audit: Any
    manifest: Any


def check(inputs: Inputs) -> list[RuleResult]:
    """Every integrity check, in a fixed order; the last may also find an early end."""
    results = [_entry(name, run(inputs)) for name, run in _CHECKS.items()]
    return [*results, _complete(inputs)]


def unreadable(reason: str) -> RuleResult:
    """The entry for rows that are not rows at all."""
    return _entry("readable", (reason, "restore the rows or measure again"))


def _entry(name: str, problem: Problem) -> RuleResult:
    reason, remedy = problem or ("in order", None)
    return RuleResult(
        name=f"integrity/{name}",
        kind="integrity",
        role="integrity",
        outcome=Outcome.INVALID if problem else Outcome.PASS,
        reason=reason,
        remedy=remedy,
    )


def _some(items: Sequence[str]) -> str:
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")


def _rows_present(inputs: Inputs) -> Problem:
    return None if inputs.records else ("there are no rows", "run the measure stage")


def _unique(inputs: Inputs) -> Problem:
    counts = Counter(record.key for record in inputs.records)
    ids = Counter(record.request_id for record in inputs.records)
    twice = sorted("/".join(key) for key, count in counts.items() if count > 1)
    twice = twice or sorted(name for name, count in ids.items() if count > 1)
    if not twice:
        return None
    return (f"rows occur twice: {_some(twice)}", "find out which are real; never choose by result")


def _manifest(inputs: Inputs) -> Problem:
    found = sorted({record.manifest_sha256 for record in inputs.records})
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
    if sealed_sha256(entries) != inputs.manifest.get("manifest_sha256"):
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
    return _exactly("arm", [a.name for a in inputs.plan.arms], [r.arm for r in inputs.records])


def _sampling(inputs: Inputs) -> Problem:
    names = [record.sampling_name for record in inputs.records]
    problem = _exactly("sampling setting", inputs.plan.sampling, names)
    if problem is not None:
        return problem
    for name, kind in (("sampled", "greedily"), ("greedy", "with sampling")):
        rows = [r for r in inputs.records if r.sampling_name == name]
        wrong = [r.request_id for r in rows if asks_greedy(r) is not (name == "greedy")]
        if wrong:
            return (
                f"the setting {name} was measured {kind}: {_some(wrong)}",
                "measure with the temperature that the setting's name says",
            )
    return None


def _stage(inputs: Inputs) -> Problem:
    return _exactly("stage", [inputs.plan.stage], [record.stage for record in inputs.records])


def _exactly(what: str, wanted: Sequence[str], found: Sequence[str]) -> Problem:
    missing = sorted(set(wanted) - set(found))
    foreign = sorted(set(found) - set(wanted))
    parts = []
    if missing:
        parts.append(f"no rows of {what} {_some(missing)}")
    if foreign:
        parts.append(f"rows of {what} {_some(foreign)}, which the plan does not have")
    return ("; ".join(parts), f"measure exactly the plan's: {_some(wanted)}") if parts else None


def _same_inputs(inputs: Inputs) -> Problem:
    """The arms of one request must have seen the same prompt and the same settings."""
    seen: dict[tuple[str, str], tuple[object, ...]] = {}
    differing = set()
    for record in inputs.records:
        settings = {k: v for k, v in record.sampling.items() if k != "seed"}
        strata = (record.category, record.difficulty, record.language)
        own = (record.prompt_token_ids, json.dumps(settings, sort_keys=True), strata)
        request = (record.prompt_id, record.sampling_name)
        if seen.setdefault(request, own) != own:
            differing.add("/".join(request))
    if not differing:
        return None
    return (
        f"arms had different prompts, settings or labels: {_some(sorted(differing))}",
        "measure all arms from one compiled prompt table",
    )


def _numbers_agree(inputs: Inputs) -> Problem:
    wrong = [r.request_id for r in inputs.records if r.error is None and not agrees(r)]
    if not wrong:
        return None
    return (f"numbers contradict each other in {_some(wrong)}", "find the fault in the measurement")


def _missing(inputs: Inputs) -> Problem:
    """Requests without a usable row in every arm; failed ones are judged by the error rule."""
    arms = [arm.name for arm in inputs.plan.arms]
    rows = {(r.prompt_id, r.sampling_name, r.arm): r for r in inputs.records}
    prompts = sorted({record.prompt_id for record in inputs.records})
    requests = [(prompt, sampling) for prompt in prompts for sampling in inputs.plan.sampling]
    drafting = {arm.name for arm in inputs.plan.arms if arm.draft}
    gaps = []
    for prompt, sampling in requests:
        found = {arm: rows.get((prompt, sampling, arm)) for arm in arms}
        complete = [r for r in found.values() if r is not None and r.error is None]
        scored = {record.quality is None for record in complete}
        if (
            None in found.values()
            or len(scored) > 1
            or any(_lacks(record, drafts=record.arm in drafting) for record in complete)
        ):
            gaps.append(f"{prompt}/{sampling}")
    allowed = inputs.plan.missing_data.max_missing_share
    if not requests or len(gaps) / len(requests) <= allowed:
        return None
    return (
        f"{len(gaps)} of {len(requests)} requests lack a row or a number in some arm "
        f"({_some(gaps)}); the plan allows {allowed:.1%}",
        "complete the measurement; a gap may hide the worst results",
    )


def _lacks(record: Record, *, drafts: bool) -> bool:
    needed: list[object] = [record.output_tokens, record.ttft_s, record.e2e_s]
    if drafts:
        needed += [record.steps, record.drafted, record.accepted]
    return None in needed


def _baseline_works(inputs: Inputs) -> Problem:
    rows = [record for record in inputs.records if record.arm == inputs.plan.baseline]
    failed = [record.request_id for record in rows if record.error is not None]
    if not rows or len(failed) / len(rows) <= inputs.plan.missing_data.max_missing_share:
        return None
    return (
        f"the baseline failed on {len(failed)} of {len(rows)} requests ({_some(failed)})",
        "repair the baseline: there is nothing to compare with",
    )


def _speculation(inputs: Inputs) -> Problem:
    """An arm must have done what the plan says it does."""
    for arm in inputs.plan.arms:
        rows = [r for r in inputs.records if r.arm == arm.name and r.error is None]
        drafted = sum(record.drafted or 0 for record in rows)
        if arm.draft is None and drafted:
            return (f"arm {arm.name} should decode plainly but drafted", "check the arm's set-up")
        if arm.draft is not None and rows and not drafted:
            return (f"arm {arm.name} never drafted a token", "check the arm's set-up")
        gamma = arm.num_speculative_tokens
        sizes = {len(r.acceptance_histogram) for r in rows if r.acceptance_histogram}
        if gamma is not None and sizes - {gamma + 1}:
            return (
                f"arm {arm.name} should draft {gamma} tokens a step, its histograms say "
                f"{sorted(size - 1 for size in sizes)}",
                "measure with the plan's num_speculative_tokens",
            )
    return None


_CHECKS: dict[str, Callable[[Inputs], Problem]] = {
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
    """A run that ended early is INCONCLUSIVE, whatever it had measured so far."""
    profiles = sorted({record.profile or "none" for record in inputs.records})
    prompts = len({record.prompt_id for record in inputs.records})
    expected = inputs.plan.prompts_expected
    wanted = expected.get(profiles[0]) if len(profiles) == 1 else None
    if wanted is not None and prompts >= wanted:
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
