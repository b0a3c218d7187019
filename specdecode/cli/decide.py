"""`specdecode decide`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from specdecode.cli.console import STATUS_STYLE, JsonFlag, emit_json, number, stdout
from specdecode.cli.documents import read_json_object
from specdecode.cli.row_files import refuse_absent

if TYPE_CHECKING:
    from specdecode.governance import Plan


def decide_command(  # noqa: PLR0917 - options, given by name
    plan: Annotated[Path, typer.Option("--plan", help="The plan, written before the run.")],
    rows: Annotated[
        Path,
        typer.Option(
            "--rows", help="Recorded rows: parquet, a folder of it, or the spool of a router."
        ),
    ],
    audit: Annotated[
        Path | None, typer.Option("--audit", help="Result of the audit of these very rows (JSON).")
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--manifest",
            help="Manifest the rows were measured under (JSON); ties rows and plan to each other. "
            "Of a spool, only rows of this manifest are judged.",
        ),
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(
            "--stage", help="Stage to judge, where a spool has rows of several: shadow, canary, …"
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the verdict that a plan and recorded rows lead to, at the stage the rows come from.

    Exit codes: 0 GO, 10 NO_GO, 11 INCONCLUSIVE, 12 INVALID, 2 wrong usage.

    Example: specdecode decide --plan plans/default.yaml --rows data/rows.parquet
    --audit reports/audit.json --manifest reports/manifest.json

    Without --manifest nothing shows that the rows were measured for this plan. What --json prints
    is the verdict's file, which `approve` signs and `bundle` takes.
    """
    from specdecode.governance import decide, load_plan

    refuse_absent(rows, or_folder=True)
    sealed = None if manifest is None else read_json_object(manifest)
    view, chosen = _chosen(load_plan(plan), rows, stage, sealed)
    audited = None if audit is None else read_json_object(audit)
    verdict = decide(view, chosen, audited, sealed)
    if as_json:
        emit_json(verdict.to_json())
    else:
        _show(verdict.to_json())
    raise typer.Exit(verdict.exit_code)


def _chosen(
    plan: Plan, rows: Path, stage: str | None, manifest: Mapping[str, Any] | None
) -> tuple[Plan, Any]:
    """The plan as the stage has it, and the rows of the stage."""
    from specdecode.governance.stage_of_rows import of_spool, view_for
    from specdecode.rollout.spool_lines import is_spool

    if is_spool(rows / "spool"):  # of the router whose folder this is
        rows /= "spool"
    if is_spool(rows):
        found = None if manifest is None else manifest.get("manifest_sha256")
        return of_spool(plan, rows, stage, found if isinstance(found, str) else None)
    return view_for(plan, rows) if stage is None else plan.at(stage), rows


def _show(verdict: Mapping[str, Any]) -> None:
    console = stdout()
    status = str(verdict["status"])
    console.print(f"[{STATUS_STYLE.get(status, 'bold')}]{escape(status)}[/]")
    for heading, key in (("Why", "reasons"), ("What would change it", "to_change")):
        if verdict[key]:
            console.print(f"\n{heading}:")
            for text in verdict[key]:
                console.print(f"  - {escape(str(text))}")
    console.print()
    passed, shown = _without_passed_checks(verdict["rules"])
    if passed:
        console.print(f"{passed} checks of the rows pass (integrity).\n")
    if shown:
        console.print(_table(shown))


def _without_passed_checks(rules: Sequence[Mapping[str, Any]]) -> tuple[int, list[Any]]:
    """How many checks of the rows passed, and all other entries: these have the numbers."""
    shown = [
        rule
        for rule in rules
        if rule["outcome"] != "pass" or not str(rule["name"]).startswith("integrity/")
    ]
    return len(rules) - len(shown), shown


def _table(rules: Sequence[Mapping[str, Any]]) -> Table:
    """One line a rule; on a narrow terminal only names are folded, never cut and never numbers."""
    table = Table(box=None, pad_edge=False)
    # After how many units it stood is known only where every look counts.
    decided = any(rule.get("decided_at") is not None for rule in rules)
    table.add_column("rule", overflow="fold")
    for heading in ("estimate", "interval", "threshold", "n", "outcome"):
        table.add_column(heading, no_wrap=True)
    if decided:
        table.add_column("decided at", no_wrap=True)
    for rule in rules:
        of = [str(part) for part in (rule.get("arm"), rule.get("stratum")) if part]
        cells = [
            f"{rule['name']} ({', '.join(of)})" if of else str(rule["name"]),
            _cell(rule.get("estimate")),
            _interval(rule.get("low"), rule.get("high")),
            _cell(rule.get("threshold")),
            "-" if rule.get("n") is None else str(rule["n"]),
            str(rule["outcome"]),
        ]
        if decided:
            cells.append("-" if rule.get("decided_at") is None else str(rule["decided_at"]))
        table.add_row(*(escape(cell) for cell in cells))
    return table


def _cell(value: float | None) -> str:
    """A dash where there is no number: many rules have none to give, so nothing is missing."""
    return "-" if value is None else number(value)


def _interval(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "-"
    ends = ["" if end is None else number(end) for end in (low, high)]
    return f"{ends[0]} .. {ends[1]}"
