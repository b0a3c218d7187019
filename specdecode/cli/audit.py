"""`specdecode audit`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from specdecode.cli.audit_picture import check_picture, write_picture
from specdecode.cli.console import STATUS_STYLE, JsonFlag, emit_json, number, stderr, stdout
from specdecode.cli.exit_codes import BY_AUDIT_VERDICT, INCONCLUSIVE, NO_GO
from specdecode.cli.outputs import refuse_unwritable
from specdecode.cli.quiet import no_progress_in_a_pipe
from specdecode.cli.row_files import stream_rows
from specdecode.cli.target import DEFAULT_TARGET, find_target
from specdecode.errors import ConfigError, EvidenceError

SCHEMA = "specdecode.audit/1"
BASELINE_ARM = "plain"
UNNAMED_ARM = "all"
_MANY = 1e6
_CARRIERS_SHOWN = 3


def audit_command(
    rows: Annotated[Path, typer.Argument(help="Recorded outputs (.parquet or .jsonl).")],
    *,
    target: Annotated[
        str, typer.Option(help="Target model: folder, .gguf file, hub:… or pypi:…")
    ] = DEFAULT_TARGET,
    draft: Annotated[
        str | None,
        typer.Option(
            help="Draft the rows were made with: self-int4, self-int8, early-exit:K, "
            "prompt-lookup, suffix, cascade:BOTTOM,MIDDLE or a model. Sampled rows that record "
            "drafted tokens stay undecided without it."
        ),
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="Probability of calling a lossless engine biased.")
    ] = 0.01,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[
        str, typer.Option(help="auto, bfloat16 or float32: the precision the rows were made in.")
    ] = "auto",
    picture: Annotated[
        Path | None, typer.Option(help="Draw the evidence against tokens read, as SVG.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Test whether recorded outputs follow the target's own distribution.

    Rows need prompt_token_ids (or prompt: text, or messages: chat), output_token_ids and sampling;
    with an `arm` column every arm is audited by itself. The file may be of any size. The JSON
    document is what `specdecode decide --audit` reads.

    Exit codes: 0 every arm lossless, 10 an arm biased, 11 undecided, 2 wrong usage.

    Example: specdecode audit data/rows.parquet --draft self-int4
    """
    if not 0.0 < alpha < 1.0:
        raise ConfigError(f"--alpha must lie strictly between 0 and 1, not {alpha}")
    if picture is not None:
        check_picture(picture)
        refuse_unwritable(picture)
    records = stream_rows(rows)
    first = next(records, None)  # before a model is loaded for nothing
    if first is None:
        raise ConfigError(f"{rows}: holds no rows, so there is nothing to audit")

    from specdecode.audit import audit_records
    from specdecode.models import load_model

    no_progress_in_a_pipe()
    with stderr().status("auditing"):
        model = load_model(find_target(target), device, dtype)
        found = audit_records(
            chain([first], records), _arm, model, draft, alpha, baseline_arm=BASELINE_ARM
        )
    reports = {arm: report.to_json() for arm, report in found.items()}
    if picture is not None:
        write_picture(picture, reports, alpha)
    if as_json:
        digest = _digest(rows)
        emit_json({"schema": SCHEMA, "alpha": alpha, "rows_sha256": digest, "arms": reports})
    else:
        _show(reports)
    raise typer.Exit(_exit_code(report["verdict"] for report in reports.values()))


def _evidence(e_value: float | None) -> str:
    """An e-value: of a biased engine it may have hundreds of digits."""
    return number(e_value) if e_value is None or e_value < _MANY else f"{e_value:.2e}"


def _arm(row: Mapping[str, Any]) -> str:
    return str(row.get("arm") or UNNAMED_ARM)


def _digest(path: Path) -> str | None:
    """Digest that binds the audit to full records; None for rows that are only outputs."""
    from specdecode.measurement.digest import rows_sha256
    from specdecode.measurement.source import ParquetSource

    try:
        return rows_sha256(ParquetSource(path))
    except EvidenceError:
        return None


def _exit_code(verdicts: Iterable[str]) -> int:
    """Biased beats undecided beats lossless; an unknown verdict counts as undecided."""
    codes = {BY_AUDIT_VERDICT.get(verdict, INCONCLUSIVE) for verdict in verdicts}
    if NO_GO in codes:
        return NO_GO
    return INCONCLUSIVE if INCONCLUSIVE in codes else 0


def _show(reports: Mapping[str, Mapping[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("arm", "verdict", "e-value", "tokens read", "greedy exact", "ties", "failures"):
        table.add_column(heading)
    for arm, report in reports.items():
        greedy = report.get("greedy") or {}
        verdict = str(report["verdict"])
        table.add_row(
            escape(arm),
            f"[{STATUS_STYLE.get(verdict, 'bold')}]{escape(verdict)}[/]",
            _evidence(report.get("e_value")),
            str(report.get("tokens_read")),
            *(str(greedy.get(key, "not measured")) for key in ("exact", "ties", "failures")),
        )
    console = stdout()
    console.print(table)
    for arm, report in reports.items():
        for reason in report["reasons"]:
            console.print(f"{escape(arm)}: {escape(str(reason))}")
        if report.get("draft_honesty"):
            _show_honesty(arm, report["draft_honesty"])
        if report.get("first_evidence"):
            _show_evidence(arm, report)


def _show_honesty(arm: str, honesty: Mapping[str, Any]) -> None:
    """What the steps of an arm tell about its draft; why it is dishonest stands in the reasons."""
    draws, coins, declared = honesty["draws"], honesty["coins"], honesty["declared"]
    console = stdout()
    console.print(
        f"{escape(arm)}: the draft is {honesty['verdict']} ({draws['read']} draft tokens and "
        f"{coins['read']} coins read; {declared['apart']} of {declared['compared']} recorded draft "
        "probabilities are not those of the draft)"
    )
    if honesty["verdict"] == "undecided":
        for reason in honesty["reasons"]:
            console.print(f"{escape(arm)}: {escape(str(reason))}")


def _show_evidence(arm: str, report: Mapping[str, Any]) -> None:
    """Where the evidence first sufficed, and which tokens carry it."""
    first, console = report["first_evidence"], stdout()
    console.print(
        f"{escape(arm)}: the evidence first sufficed at {escape(first['row'])}, output position "
        f"{first['position']}, token {first['token']} ({first['kind']})"
    )
    table = Table(box=None, pad_edge=False)
    for heading in ("evidence by", "group", "tokens", "log e-value"):
        table.add_column(heading)
    by_direction = {
        name: {"tokens": report["tokens_read"], "log_e_value": log_e}
        for name, log_e in sorted(report["directions"].items(), key=lambda item: -item[1])
    }
    for name, groups in {"direction": by_direction, **report["carried_by"]}.items():
        for group, sums in list(groups.items())[:_CARRIERS_SHOWN]:
            table.add_row(name, escape(group), str(sums["tokens"]), f"{sums['log_e_value']:.2f}")
    console.print(table)
