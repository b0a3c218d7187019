"""From plan and rows to a verdict: a pure function that fails closed.

No clock, no randomness beyond the plan's seed, nothing kept: the same input gives the same bytes,
in whatever order the rows come. Rows are looked at by columns and in batches, never as objects, so
that ten million of them take seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from specdecode.errors import EvidenceError
from specdecode.governance.evidence import Evidence
from specdecode.governance.integrity import Inputs, check, unreadable
from specdecode.governance.live.integrity import arm_awaited, check_live
from specdecode.governance.live.judge import judge_metrics, not_judged
from specdecode.governance.live.rows import LiveRows, read_live
from specdecode.governance.plan import Plan, plan_sha256
from specdecode.governance.rules.base import Rule
from specdecode.governance.survey import Survey, survey
from specdecode.governance.tables import Rows, as_rows
from specdecode.governance.verdict import Outcome, RuleResult, Status, Verdict
from specdecode.measurement.digest import digest_of
from specdecode.measurement.source import Source, TableSource
from specdecode.measurement.two_readers import read_rows
from specdecode.rollout.spool_reader import SpoolSource

_HOLDS = (Outcome.UNDECIDED, Outcome.INSUFFICIENT, Outcome.NOT_EVALUATED)
_AWAITED = "not evaluated: an arm has no rows yet"


def decide(
    plan: Plan,
    rows: Rows,
    audit: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> Verdict:
    """The verdict on the rows under the plan.

    Args:
        plan: written before the rows existed; for another stage than its own, `plan.at(stage)`.
            The metrics of a live stage are judged as its method says, at every look alike.
        rows: a path of a parquet file, of a folder of them, or of a router's spool, which are read
            in batches, or a source of such; or a table with the columns of a record, a pandas
            DataFrame, or a list of mappings of them. The order of the rows does not matter.
        audit: the audit document, {"alpha": …, "arms": {arm: report}, "rows_sha256": …}; one of
            other or unnamed rows is INVALID. A missing one makes the verdict INVALID wherever the
            plan asks for losslessness.
        manifest: the input manifest, {"manifest_sha256": …, "entries"?: {name: sha256}}. Entries
            must be the sealed ones and, where they name a plan, name this one. None: the rows are
            only checked to be of one and the same manifest, and not to be made for this plan.

    Returns:
        INVALID if the rows are not the evidence the plan asked for; else NO_GO if a primary rule
        or guardrail failed; else INCONCLUSIVE if one is undecided; else GO.

    Raises:
        ConfigError: rows are none of these.
        EvidenceError: the path leads to no file, or to one that is not parquet.
    """
    given, stage = as_rows(rows), plan.sequential_stage
    live: LiveRows | None = None
    try:
        source = given if isinstance(given, Source) else TableSource(given)
        read = read_rows(source)  # takes only valid rows, so that the survey may rely on it
        with ThreadPoolExecutor(1) as beside:
            hashing = beside.submit(digest_of, read.hashes)
            drafts = {arm.name: arm.draft is not None for arm in plan.arms}
            surveyed = survey(read, drafts, plan.sampling)
            live = None if stage is None else read_live(source)
            digest = hashing.result()
    except EvidenceError as error:
        return _verdict(plan, [unreadable(str(error)), *_none_evaluated(plan)], None, None)
    inputs = Inputs(plan, surveyed, digest, audit, manifest)
    if stage is None or live is None:
        integrity = check(inputs)
    else:
        unanswered = source.without_reply if isinstance(source, SpoolSource) else {}
        integrity = check_live(inputs, stage, live, unanswered)
    if any(entry.outcome is Outcome.INVALID for entry in integrity) or not surveyed.rows:
        results = _none_evaluated(plan)
    else:
        evidence = Evidence(surveyed, plan.baseline, plan.bootstrap_seed, audit)
        if stage is not None and arm_awaited(integrity):
            results = [rule.result(Outcome.NOT_EVALUATED, _AWAITED) for rule in plan.rules]
        else:
            results = [entry for rule in plan.rules for entry in _evaluate(rule, evidence)]
        if stage is not None and live is not None:
            try:
                results += judge_metrics(plan, stage, live)
            except Exception as error:  # noqa: BLE001 - as for a rule
                integrity.append(_crashed(error))
                results = _none_evaluated(plan)
    return _verdict(plan, [*integrity, *results], surveyed, digest)


def _evaluate(rule: Rule, evidence: Evidence) -> list[RuleResult]:
    try:
        entries = rule.evaluate(evidence)
    except Exception as error:  # noqa: BLE001 - a check that crashed is a failed check, not a crash
        reason = f"the check could not be computed: {type(error).__name__}: {error}"
        entries = [rule.result(Outcome.INVALID, reason, remedy="report this as a fault")]
    return entries or [rule.result(Outcome.INVALID, "the check said nothing")]


def _crashed(error: Exception) -> RuleResult:
    return RuleResult(
        name="integrity/metrics_computed",
        kind="integrity",
        role="integrity",
        outcome=Outcome.INVALID,
        reason=f"the metrics could not be computed: {type(error).__name__}: {error}",
        remedy="report this as a fault",
    )


def _none_evaluated(plan: Plan) -> list[RuleResult]:
    stage = plan.sequential_stage
    metrics = [] if stage is None else not_judged(plan, stage)
    return [*(_not_evaluated(rule) for rule in plan.rules), *metrics]


def _not_evaluated(rule: Rule) -> RuleResult:
    return rule.result(Outcome.NOT_EVALUATED, "not evaluated: the rows are not valid evidence")


def _verdict(
    plan: Plan, results: list[RuleResult], surveyed: Survey | None, digest: str | None
) -> Verdict:
    status, deciding = _status(results, live=plan.sequential_stage is not None)
    manifests = surveyed.manifests if surveyed else set()
    return Verdict(
        status=status,
        plan_name=plan.name,
        plan_sha256=plan_sha256(plan),
        claim=plan.claim,
        owner=plan.owner,
        manifest_sha256=next(iter(manifests)) if len(manifests) == 1 else None,
        rows_sha256=digest,
        rows=surveyed.rows if surveyed else 0,
        prompts=surveyed.prompts if surveyed else 0,
        reasons=[_sentence(entry) for entry in deciding],
        to_change=list(dict.fromkeys(e.remedy for e in deciding if e.remedy is not None)),
        reopen_when=list(plan.reopen_when),
        overturned_by=list(plan.overturned_by),
        rules=results,
    )


def _status(
    results: Sequence[RuleResult], *, live: bool = False
) -> tuple[Status, list[RuleResult]]:
    """The status and the entries it rests on.

    A live stage may ask for nothing but that no alarm comes. Then its guardrails, each looked at
    over enough units, are what a GO rests on.
    """
    deciding = [entry for entry in results if entry.counts]
    invalid = [e for e in results if e.outcome is Outcome.INVALID]  # also of a secondary rule
    if invalid:
        return Status.INVALID, invalid
    if failed := [e for e in deciding if e.outcome is Outcome.FAIL]:
        return Status.NO_GO, failed
    if open_ := [e for e in deciding if e.outcome in _HOLDS]:
        return Status.INCONCLUSIVE, open_
    shown = [e for e in deciding if e.role == "primary"]
    if live and not shown:
        shown = [e for e in deciding if e.role == "guardrail"]
    return (Status.GO if shown else Status.INCONCLUSIVE), shown  # nothing shown is not a GO


def _sentence(entry: RuleResult) -> str:
    who = f"{entry.name} ({entry.arm})" if entry.arm else entry.name
    return f"{who}: {entry.reason}"
