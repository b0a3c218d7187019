"""From plan and rows to a verdict: a pure function that fails closed.

No clock, no randomness beyond the plan's seed, no file: the same input gives the same bytes, in
whatever order the rows come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specdecode.errors import EvidenceError
from specdecode.governance.evidence import Evidence
from specdecode.governance.integrity import Inputs, check, unreadable
from specdecode.governance.plan import Plan, plan_sha256
from specdecode.governance.rules.base import Rule
from specdecode.governance.tables import Rows, as_table
from specdecode.governance.verdict import Outcome, RuleResult, Status, Verdict
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import Record, checked, to_records

_HOLDS = (Outcome.UNDECIDED, Outcome.INSUFFICIENT, Outcome.NOT_EVALUATED)


def decide(
    plan: Plan,
    rows: Rows,
    audit: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> Verdict:
    """The verdict on the rows under the plan.

    Args:
        plan: written before the rows existed.
        rows: a table with the columns of a record, or a pandas DataFrame or a list of mappings of
            them; the order does not matter.
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
    """
    table = as_table(rows)
    try:
        records = sorted(to_records(checked(table)), key=lambda r: (r.key, r.to_json_line()))
    except EvidenceError as error:
        skipped = [_not_evaluated(rule) for rule in plan.rules]
        return _verdict(plan, [unreadable(str(error)), *skipped], [], None)
    digest = rows_sha256(records)
    integrity = check(Inputs(plan, records, digest, audit, manifest))
    if any(entry.outcome is Outcome.INVALID for entry in integrity):
        results = [_not_evaluated(rule) for rule in plan.rules]
    else:
        evidence = Evidence(records, plan.baseline, plan.bootstrap_seed, audit)
        results = [entry for rule in plan.rules for entry in _evaluate(rule, evidence)]
    return _verdict(plan, [*integrity, *results], records, digest)


def _evaluate(rule: Rule, evidence: Evidence) -> list[RuleResult]:
    try:
        entries = rule.evaluate(evidence)
    except Exception as error:  # noqa: BLE001 - a check that crashed is a failed check, not a crash
        reason = f"the check could not be computed: {type(error).__name__}: {error}"
        entries = [rule.result(Outcome.INVALID, reason, remedy="report this as a fault")]
    return entries or [rule.result(Outcome.INVALID, "the check said nothing")]


def _not_evaluated(rule: Rule) -> RuleResult:
    return rule.result(Outcome.NOT_EVALUATED, "not evaluated: the rows are not valid evidence")


def _verdict(
    plan: Plan, results: list[RuleResult], records: Sequence[Record], digest: str | None
) -> Verdict:
    status, deciding = _status(results)
    manifests = {record.manifest_sha256 for record in records}
    return Verdict(
        status=status,
        plan_name=plan.name,
        plan_sha256=plan_sha256(plan),
        claim=plan.claim,
        owner=plan.owner,
        manifest_sha256=manifests.pop() if len(manifests) == 1 else None,
        rows_sha256=digest,
        rows=len(records),
        prompts=len({record.prompt_id for record in records}),
        reasons=[_sentence(entry) for entry in deciding],
        to_change=list(dict.fromkeys(e.remedy for e in deciding if e.remedy is not None)),
        reopen_when=[] if status is Status.GO else list(plan.reopen_when),
        overturned_by=list(plan.overturned_by),
        rules=results,
    )


def _status(results: Sequence[RuleResult]) -> tuple[Status, list[RuleResult]]:
    """The status and the entries it rests on."""
    deciding = [entry for entry in results if entry.counts]
    invalid = [e for e in results if e.outcome is Outcome.INVALID]  # also of a secondary rule
    if invalid:
        return Status.INVALID, invalid
    if failed := [e for e in deciding if e.outcome is Outcome.FAIL]:
        return Status.NO_GO, failed
    if open_ := [e for e in deciding if e.outcome in _HOLDS]:
        return Status.INCONCLUSIVE, open_
    shown = [e for e in deciding if e.role == "primary"]
    return (Status.GO if shown else Status.INCONCLUSIVE), shown  # nothing shown is not a GO


def _sentence(entry: RuleResult) -> str:
    who = f"{entry.name} ({entry.arm})" if entry.arm else entry.name
    return f"{who}: {entry.reason}"
