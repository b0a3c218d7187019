"""`specdecode ledger …`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdecode.cli.console import JsonFlag, emit_json, stdout
from specdecode.cli.documents import check_head, read_json_object
from specdecode.cli.exit_codes import TAMPERED
from specdecode.cli.keys import DEFAULT_LEDGER
from specdecode.cli.outputs import refuse_unwritable, write_output
from specdecode.errors import ConfigError, TamperedError

if TYPE_CHECKING:
    from specdecode.governance.anchor import AnchorEvidence

LedgerArgument = Annotated[Path, typer.Argument(help="The ledger.")]

ledger_app = typer.Typer(help="Check, anchor and repair the ledger.", no_args_is_help=True)


@ledger_app.callback()
def _ledger() -> None:
    """Check, anchor and repair the ledger."""


@ledger_app.command("verify")
def verify_command(
    ledger: LedgerArgument = DEFAULT_LEDGER,
    head: Annotated[
        str | None, typer.Option("--head", help="A head that you kept elsewhere.")
    ] = None,
    anchor: Annotated[
        Path | None, typer.Option("--anchor", help="Evidence of an anchor (PLAN.anchor.json).")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that no line was edited, moved, removed, back-dated or cut off.

    Exit code 3 and the first bad line when one was. Lines cut off at the end only show with --head
    or --anchor. The JSON document also has what each sealed plan took: holds, amendments, and the
    seconds from seal to verdict and from there to each decision.

    Example: specdecode ledger verify plans/ledger.jsonl
    """
    from specdecode.governance.effort import effort_by_plan
    from specdecode.governance.ledger import verify_ledger

    check_head(head)
    evidence = None if anchor is None else _evidence(anchor)
    if head is not None and evidence is not None and evidence.head != head:
        raise ConfigError(f"--head and {anchor} name two heads; pass one of them")
    if evidence is not None:
        _verify(evidence)
    expected = evidence.head if evidence is not None else head
    chain = verify_ledger(ledger, expected)
    problem = chain.problem
    named = None if evidence is None else evidence.name
    if as_json:
        found = problem and {
            "line": problem.line,
            "fault": problem.fault.value,
            "message": problem.message,
        }
        emit_json(
            {
                "file": str(ledger),
                "valid": problem is None,
                "entries": len(chain.entries),
                "head": chain.head,
                "expected_head": expected,
                "anchor": named,
                "problem": found,
                "effort": None
                if problem is not None
                else {plan: took.to_json() for plan, took in effort_by_plan(chain.entries).items()},
            }
        )
    elif problem is not None:
        stdout().print(f"TAMPERED: {ledger}, line {problem.line}: {problem.message}", markup=False)
    else:
        console = stdout()
        console.print(f"{ledger}: {len(chain.entries)} lines in order", markup=False)
        console.print(f"head {chain.head}", markup=False)
        if expected is None:
            console.print("Lines cut off at the end would not show: pass --head or --anchor.")
    if problem is not None:
        raise typer.Exit(TAMPERED)


@ledger_app.command("anchor")
def anchor_command(  # noqa: PLR0917 - typer reads each as an option
    out: Annotated[Path, typer.Option("--out", help="Where the evidence goes (JSON).")],
    anchor: Annotated[str, typer.Option("--anchor", help="git-tag or rfc3161.")],
    ledger: LedgerArgument = DEFAULT_LEDGER,
    token: Annotated[
        Path | None, typer.Option("--token", help="Timestamp token of the head, for rfc3161.")
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", help="Which line's head; the last one's by default.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Let an anchor vouch for the ledger's head, and write down its evidence.

    Example: specdecode ledger anchor --anchor git-tag --out plans/default.anchor.json
    """
    from specdecode.governance.anchor import anchor_named
    from specdecode.governance.canonical import canonical_bytes
    from specdecode.governance.ledger import verify_ledger

    refuse_unwritable(out)
    chosen = anchor_named(anchor, token=token)
    chosen.ready()
    check_head(head)
    chain = verify_ledger(ledger, head).intact(str(ledger))
    document: dict[str, Any] = chosen.attest(head or chain.head).model_dump(mode="json")
    write_output(out, canonical_bytes(document) + b"\n")
    if as_json:
        emit_json({"file": str(out), **document})
        return
    console = stdout()
    console.print(f"{document['name']} for head {document['head']} in {out}", markup=False)
    if document["proof"] is None:
        console.print("It proves nothing yet.")
    elif document["name"] == "git-tag":
        console.print(
            f"Push the tag {document['proof']['tag']}: only outside this repository does it vouch."
        )


@ledger_app.command("repair")
def repair_command(ledger: LedgerArgument = DEFAULT_LEDGER, as_json: JsonFlag = False) -> None:
    """Take off a last line that a crash cut short; its bytes are kept in a file beside.

    Example: specdecode ledger repair plans/ledger.jsonl
    """
    from specdecode.governance.ledger import repair_ledger

    aside = repair_ledger(ledger)
    if as_json:
        emit_json({"file": str(ledger), "kept": None if aside is None else str(aside)})
        return
    found = "nothing to repair" if aside is None else f"the cut line is kept in {aside}"
    stdout().print(f"{ledger}: {found}", markup=False)


def _evidence(path: Path) -> AnchorEvidence:
    from pydantic import ValidationError

    from specdecode.governance.anchor import AnchorEvidence

    try:
        return AnchorEvidence.model_validate(read_json_object(path))
    except ValidationError as error:
        raise TamperedError(f"{path}: not the evidence of an anchor") from error


def _verify(evidence: AnchorEvidence) -> None:
    from specdecode.governance.anchor import anchor_named

    anchor_named(evidence.name).verify(evidence)
