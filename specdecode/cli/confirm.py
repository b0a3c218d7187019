"""`specdecode confirm`."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdecode.cli.confirm_inputs import Inputs, read_inputs
from specdecode.cli.confirm_request import read_request
from specdecode.cli.console import STATUS_STYLE, JsonFlag, emit_json, stderr, stdout
from specdecode.cli.exit_codes import GO, INCONCLUSIVE
from specdecode.cli.keys import DEFAULT_LEDGER, LedgerOption, SignersOption
from specdecode.cli.outputs import refuse_unwritable, write_output
from specdecode.cli.quiet import no_progress_in_a_pipe
from specdecode.errors import ConfigError, UserError

if TYPE_CHECKING:
    from specdecode.governance.opening import Handed
    from specdecode.governance.opening_request import Request
    from specdecode.governance.verdict import Verdict
    from specdecode.measurement.records import Record
    from specdecode.models import LoadedModel
    from specdecode.workload.confirmation import ConfirmationRun


def confirm_command(  # noqa: PLR0917 - typer reads each as an option
    plan: Annotated[Path, typer.Option("--plan", help="The sealed plan (YAML).")],
    vault: Annotated[Path, typer.Option("--vault", help="Folder of the confirmation set.")],
    key: Annotated[
        list[Path], typer.Option("--key", help="A holder's vault key; repeat for every holder.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for rows, audit and verdict.")],
    seal: Annotated[
        Path | None, typer.Option("--seal", help="The plan's seal; by default PLAN.seal.json.")
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option("--anchor", help="Evidence of the anchor; by default PLAN.anchor.json."),
    ] = None,
    params: Annotated[Path, typer.Option("--params", help="Parameters of the run.")] = Path(
        "params.yaml"
    ),
    manifest: Annotated[
        Path, typer.Option("--manifest", help="Input manifest: the candidate, frozen.")
    ] = Path("reports/manifest.json"),
    target: Annotated[Path, typer.Option("--target", help="Folder of the target model.")] = Path(
        "models/target"
    ),
    signers: SignersOption = None,
    ledger: LedgerOption = DEFAULT_LEDGER,
    as_json: JsonFlag = False,
) -> None:
    """Open the confirmation set, once and for this candidate only, and print the verdict.

    Checks seal, ledger, anchor and that nothing sealed has changed; puts the opening on record;
    then decodes each prompt by every arm, audits the rows and decides. After a crash the same
    command goes on, without the prompt that was in flight: its rows count as failed. For another
    candidate the set stays closed for good.

    Exit codes: 0 GO, 10 NO_GO, 11 INCONCLUSIVE, 12 INVALID, 3 TAMPERED, 2 wrong usage or consumed.

    Example: specdecode confirm --plan plans/default.yaml --vault ../our_set --key ../holder.key
    --out data/confirmation
    """
    from specdecode.governance.confirmation import confirm
    from specdecode.governance.opening import open_once
    from specdecode.measurement.spool import RowSpool
    from specdecode.workload.progress import progress

    inputs = read_inputs(plan, params, manifest, target)
    request = read_request(
        inputs,
        plan,
        vault=vault,
        keys=key,
        seal=seal,
        anchor=anchor,
        signers=signers,
        ledger=ledger,
    )
    _refuse_folder(out)
    _exploratory(request, inputs)  # a forged amendment is told before anything is consumed
    no_progress_in_a_pipe()
    with stderr().status("loading"):
        model, run = _ready(inputs)
    with (
        open_once(request) as opening,
        RowSpool(out / "spool", inputs.manifest_sha256) as spool,
        progress("confirm", opening.count, len(opening.history.handed_out)) as advance,
    ):

        def rows(block: Sequence[Handed]) -> Iterator[Record]:
            for handed in block:
                yield from run.rows(handed.index, handed.prompt)
                advance(f"prompt {handed.index + 1}")

        def lost(handed: Handed, why: str) -> Iterator[Record]:
            return run.failed_rows(handed.index, handed.prompt, why)

        with _told_what_is_lost():
            done = confirm(opening, spool, rows, lost)
        records, opened = spool.records(), opening.opened
    verdict = _judge(inputs, model, records, out)
    _put_on_record(request, verdict, opened.custody)
    exploratory = _exploratory(request, inputs)
    document = {
        "status": verdict.status.value,
        "exploratory": exploratory,
        "custody": opened.custody,
        "opened_at": opened.at,
        "prompts": done.prompts,
        "lost": done.lost,
        "rows": str(out / "rows.parquet"),
        "verdict": str(out / "verdict.json"),
        "ledger": str(ledger),
        "head": request.ledger.head,
        "reasons": verdict.reasons,
    }
    if as_json:
        emit_json(document)
    else:
        _show(document)
    code = verdict.exit_code
    raise typer.Exit(INCONCLUSIVE if exploratory and code == GO else code)


def _refuse_folder(out: Path) -> None:
    """A folder that takes no rows is told before the set is opened."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out}: cannot be made ({error.strerror or error})") from error
    refuse_unwritable(out / "verdict.json")


def _ready(inputs: Inputs) -> tuple[LoadedModel, ConfirmationRun]:
    """Models loaded and warmed up: what fails here has consumed nothing."""
    import torch

    from specdecode.workload.compile import load_tokenizer
    from specdecode.workload.confirmation import ConfirmationRun

    if (threads := inputs.params["decoding"].get("threads")) is not None:
        torch.set_num_threads(threads)
    tokenizer, context_tokens = load_tokenizer(inputs.target)
    model, engines = inputs.load()
    run = ConfirmationRun(
        engines,
        inputs.settings,
        tokenizer,
        context_tokens,
        master_seed=inputs.params["seeds"]["sampling"],
        manifest_sha256=inputs.manifest_sha256,
        profile=inputs.params["profile"],
    )
    run.warm_up()
    return model, run


@contextmanager
def _told_what_is_lost() -> Iterator[None]:
    """An interruption costs a prompt here; elsewhere it costs nothing."""
    cost = "The prompt in flight is lost and counts as failed; run the same command to go on."
    try:
        yield
    except KeyboardInterrupt:
        stderr().print(f"Interrupted. {cost}")
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"the disk is full: free some space. {cost}") from error
        raise


def _judge(inputs: Inputs, model: LoadedModel, records: Sequence[Record], out: Path) -> Verdict:
    """Audit and decide; both and the rows go to `out`. The same rows give the same bytes."""
    from specdecode.governance import decide
    from specdecode.measurement.records import to_table, write_parquet

    table = to_table(records)
    write_parquet(table, out / "rows.parquet")
    audit = _audit(inputs, model, records)
    if audit is not None:
        write_output(out / "audit.json", f"{json.dumps(audit, indent=2)}\n".encode())
    verdict = decide(inputs.plan, table, audit, inputs.manifest)
    write_output(out / "verdict.json", verdict.to_bytes())
    return verdict


def _audit(inputs: Inputs, model: LoadedModel, records: Sequence[Record]) -> dict[str, Any] | None:
    from specdecode.audit import audit_arms
    from specdecode.measurement.digest import rows_sha256

    alpha = inputs.audit_alpha
    if alpha is None:
        return None
    arms: dict[str, list[dict[str, Any]]] = {arm.name: [] for arm in inputs.plan.arms}
    for record in records:
        arms[record.arm].append(record.model_dump())
    reports = audit_arms(arms, model, inputs.draft, alpha, baseline_arm=inputs.plan.baseline)
    return {
        "schema": "specdecode.audit/1",
        "alpha": alpha,
        "rows_sha256": rows_sha256(records),
        "arms": {arm: report.to_json() for arm, report in reports.items()},
    }


def _put_on_record(request: Request, verdict: Verdict, custody: str) -> None:
    """Once: a second run of a finished confirmation comes to the same verdict."""
    from specdecode.governance.canonical import sha256_hex

    digest = sha256_hex(verdict.to_bytes())
    lines = request.ledger.entries()
    if any(e.kind == "verdict" and e.body.get("verdict_sha256") == digest for e in lines):
        return
    request.ledger.append(
        "verdict",
        {
            "plan_sha256": verdict.plan_sha256,
            "verdict_sha256": digest,
            "status": verdict.status.value,
            "rows_sha256": verdict.rows_sha256,
            "custody": custody,
        },
    )


def _exploratory(request: Request, inputs: Inputs) -> list[str]:
    """Why the result confirms nothing: deviations decided after the set was opened."""
    from specdecode.governance import plan_sha256
    from specdecode.governance.amendments import exploratory

    foreseen = [entry.name for entry in inputs.plan.contingencies]
    return exploratory(request.ledger, foreseen, request.signers, plan_sha256(inputs.plan))


def _show(document: Mapping[str, Any]) -> None:
    from specdecode.governance.vault_page import CUSTODY

    console, status = stdout(), document["status"]
    console.print(f"[{STATUS_STYLE.get(status, 'bold')}]{status}[/]")
    for reason in document["reasons"]:
        console.print(f"  - {reason}", markup=False)
    for reason in document["exploratory"]:
        console.print(f"EXPLORATORY: {reason}", markup=False)
    console.print(
        f"\n{document['prompts']} prompts, {document['lost']} of them lost to a crash; opened "
        f"{document['opened_at']}",
        markup=False,
    )
    console.print(f"custody {CUSTODY[document['custody']]}", markup=False)
    for name in ("rows", "verdict", "ledger", "head"):
        console.print(f"{name:8}{document[name]}", markup=False)
    console.print("Anchor this head (`specdecode ledger anchor`): without, a cut would not show.")
