"""Run the expectations and judge them: fail closed.

Great Expectations calls an empty table a success (its issue 1149 and others), so rows are counted
here first. An expectation that raised, or whose result is missing, counts as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pipelines.quality.expectations import expectations
from pipelines.quality.frame import frame_of
from pipelines.quality.settings import ValidateSettings
from specdecode.errors import DataValidationError

if TYPE_CHECKING:
    from great_expectations.expectations import Expectation

SCHEMA = "specdecode.validation/1"
_SHOWN_IDS = 100


class Outcome(NamedTuple):
    """What one expectation found."""

    name: str
    severity: str
    success: bool
    advice: str
    problem: str | None
    ids: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON-safe form; long lists of ids are cut and counted."""
        return {
            "name": self.name,
            "severity": self.severity,
            "success": self.success,
            "problem": self.problem,
            "unexpected": len(self.ids),
            "ids": list(self.ids[:_SHOWN_IDS]),
        }


def validate(
    table: pa.Table,
    settings: ValidateSettings,
    save: Callable[[dict[str, Any]], None] = lambda report: None,
) -> dict[str, Any]:
    """Check compiled prompts.

    Args:
        table: compiled prompts.
        settings: limits.
        save: receives the JSON-safe report before any error is raised.

    Returns:
        The report: schema, status "passed" or "failed", rows, and one entry per expectation.

    Raises:
        DataValidationError: a critical expectation failed; names it and the offending ids.
    """
    if table.num_rows == 0:
        problem = "the table of compiled prompts has no rows; nothing can be evaluated on no data"
        empty = Outcome("the table has rows", "critical", False, "add prompts", problem, ())
        save(_report(0, [empty]))
        raise DataValidationError(problem)
    outcomes = judge(table, expectations(settings))
    report = _report(table.num_rows, outcomes)
    save(report)
    failed = [o for o in outcomes if o.severity == "critical" and not o.success]
    if not outcomes:
        raise DataValidationError("no check ran on the prompts, which is not a success")
    if failed:
        first = failed[0]
        others = f" ({len(failed) - 1} more failed: {', '.join(o.name for o in failed[1:])})"
        raise DataValidationError(
            f"prompts failed the check '{first.name}': {first.problem}; {first.advice}"
            + (others if failed[1:] else ""),
            first.ids,
        )
    return report


def judge(table: pa.Table, wanted: Mapping[str, Expectation]) -> list[Outcome]:
    """Run expectations by name over a table with rows; one outcome each, in the order given."""
    results = _run(table, list(wanted.values()))
    by_name = {str(r["expectation_config"]["meta"]["name"]): r for r in results}
    return [
        _outcome(
            name, str(getattr(e.severity, "value", e.severity)), e.meta or {}, by_name.get(name)
        )
        for name, e in wanted.items()
    ]


def _run(table: pa.Table, wanted: Sequence[Expectation]) -> list[dict[str, Any]]:
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    batch = (
        context.data_sources.add_pandas("prompts")
        .add_dataframe_asset("compiled")
        .add_batch_definition_whole_dataframe("all")
    )
    suite = context.suites.add(gx.ExpectationSuite(name="prompts", expectations=list(wanted)))
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name="prompts", data=batch, suite=suite)
    )
    result = definition.run(
        batch_parameters={"dataframe": frame_of(table)},
        # COMPLETE, because SUMMARY cuts the list of offending rows at twenty.
        result_format={
            "result_format": "COMPLETE",
            "unexpected_index_column_names": ["prompt_id"],
            "return_unexpected_index_query": False,
        },
    )
    rows: list[dict[str, Any]] = result.to_json_dict()["results"]
    return rows


def _outcome(
    name: str, severity: str, meta: Mapping[str, Any], result: dict[str, Any] | None
) -> Outcome:
    advice = str(meta.get("advice", ""))
    if result is None:
        return Outcome(name, severity, False, advice, "the check returned no result", ())
    raised = _exception(result.get("exception_info") or {})
    if raised is not None:
        problem = f"the check itself could not run: {raised}"
        return Outcome(name, severity, False, advice, problem, ())
    if result.get("success") is True:
        return Outcome(name, severity, True, advice, None, ())
    details = result.get("result") or {}
    ids = tuple(
        dict.fromkeys(str(row["prompt_id"]) for row in details.get("unexpected_index_list") or ())
    )
    return Outcome(name, severity, False, advice, _problem(details, result), ids)


def _exception(info: Mapping[str, Any]) -> str | None:
    """Message of an exception; Great Expectations keys it by metric or not at all."""
    candidates = [info] if "raised_exception" in info else list(info.values())
    for candidate in candidates:
        if candidate.get("raised_exception"):
            return str(candidate.get("exception_message"))
    return None


def _problem(details: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    if "unexpected_count" in details:
        values = details.get("partial_unexpected_counts") or []
        shown = ", ".join(str(v["value"]) for v in values[:3] if isinstance(v, dict))
        return f"{details['unexpected_count']} rows" + (
            f", with values such as {shown}" if shown else ""
        )
    if missing := details.get("partial_missing_list"):
        return f"missing: {', '.join(str(value) for value in missing)}"
    if mismatched := (details.get("details") or {}).get("mismatched"):
        return "; ".join(
            f"{kind}: {', '.join(map(str, names))}" for kind, names in mismatched.items()
        )
    observed = details.get("observed_value")
    return f"observed {observed}" if observed is not None else f"result {dict(result)}"


def _report(rows: int, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    passed = bool(outcomes) and all(o.success for o in outcomes if o.severity == "critical")
    return {
        "schema": SCHEMA,
        "status": "passed" if passed else "failed",
        "rows": rows,
        "expectations": [outcome.to_json() for outcome in outcomes],
    }
