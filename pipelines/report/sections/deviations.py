"""What was done in another way than the plan says: on record, and as the rows show."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.report.inputs import ReportInputs
from pipelines.report.section import Cell, Section, Table, quote
from pipelines.report.words import Words

_COLUMNS = ("what", "why", "impact", "seen", "author", "when", "foreseen")


def deviations_section(inputs: ReportInputs, words: Words) -> Section:
    """Amendments of the ledger, and differences between the plan and the rows."""
    rows: list[list[Cell]] = [
        [
            quote(words, found.what),
            quote(words, found.why),
            quote(words, found.impact),
            words.label("data_seen", str(found.data_seen)),
            found.author,
            found.when,
            found.contingency or words("deviations.not_foreseen"),
        ]
        for found in inputs.deviations
    ]
    columns = [words(f"deviations.{name}") for name in _COLUMNS]
    tables = [Table(words("deviations.caption"), columns, rows)] if rows else []
    lead = "" if rows else words("deviations.none")
    notes = [words("deviations.signed")] if rows else []
    measured = Table(
        words("deviations.measured"),
        [words(f"deviations.{name}") for name in ("topic", "planned", "found")],
        _differences(inputs, words),
        note=words("deviations.measured_note"),
    )
    title = words("deviations.title")
    return Section("deviations", title, lead, (), [*tables, measured], notes)


def _differences(inputs: ReportInputs, words: Words) -> list[list[Cell]]:
    plan, comma = inputs.plan or {}, words("list_comma")
    profile = str((inputs.params or {}).get("profile"))
    expected = plan.get("prompts_expected")
    prompts = expected.get(profile) if isinstance(expected, Mapping) else None
    arms = [str(arm.get("name")) for arm in plan.get("arms") or () if isinstance(arm, Mapping)]
    sampling = [str(name) for name in plan.get("sampling") or ()]
    seen = sorted({str(scope["value"]) for scope in inputs.scopes("sampling")})
    failed = sum(int(found["errors"]) for found in inputs.overall["arms"].values())
    missing = (plan.get("missing_data") or {}).get("max_missing_share")
    unstated = words("not_stated")
    return [
        [words("deviations.prompts"), _or(prompts, unstated), str(inputs.metrics["prompts"])],
        [words("deviations.arms"), comma.join(arms) or unstated, comma.join(inputs.arms)],
        [words("deviations.sampling"), comma.join(sampling) or unstated, comma.join(seen) or "–"],
        [
            words("deviations.lost"),
            unstated
            if missing is None
            else words("deviations.at_most", share=words.share(missing)),
            words("of", part=failed, whole=inputs.metrics["rows"]),
        ],
    ]


def _or(value: object, otherwise: str) -> str:
    return otherwise if value is None else str(value)
