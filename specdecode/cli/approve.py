"""`specdecode approve`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from specdecode.cli.console import STATUS_STYLE, JsonFlag, emit_json, stdout
from specdecode.cli.documents import read_json_object
from specdecode.cli.keys import DEFAULT_LEDGER, KeyOption, LedgerOption, SignersOption, load_key
from specdecode.cli.outputs import refuse_unwritable, write_output
from specdecode.cli.plan_seal import signers_of
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode.governance.chain import Entry
    from specdecode.governance.signers import Signers


def approve_command(  # noqa: PLR0917 - typer reads each as an option
    verdict: Annotated[Path, typer.Argument(help="The verdict (JSON), as `decide` wrote it.")],
    plan: Annotated[Path, typer.Option("--plan", help="The plan it was reached under.")],
    key: KeyOption,
    decision: Annotated[
        str,
        typer.Option("--decision", help="approve, reject, or override: go on against the verdict."),
    ] = "approve",
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why; needed for all but an approval.")
    ] = None,
    signers: SignersOption = None,
    ledger: LedgerOption = DEFAULT_LEDGER,
    as_json: JsonFlag = False,
) -> None:
    """Sign a decision on a verdict, put it on record, and print where the verdict stands.

    Your role comes from the signers file, and how long the signature counts from the plan. Writes
    VERDICT.KEYID.approval.json beside the verdict. An override is recorded as OVERRIDDEN, never GO.

    Example: specdecode approve reports/verdict.json --plan plans/default.yaml --key Ada
    """
    from specdecode.governance.amendments import exploratory
    from specdecode.governance.approvals import (
        check_approvals,
        decisions_on,
        record_approval,
        recorded_status,
        sign_approval,
    )
    from specdecode.governance.ledger import Ledger
    from specdecode.governance.plan import load_plan, plan_sha256
    from specdecode.governance.statements import Decision
    from specdecode.governance.subjects import file_sha256
    from specdecode.governance.timestamps import utc_now
    from specdecode.governance.verdict import Status

    document, agreed = read_json_object(verdict), load_plan(plan)
    if document.get("plan_sha256") != plan_sha256(agreed):
        raise ConfigError(f"{verdict}: was not reached under {plan}; pass the plan it names")
    if document.get("status") not in list(Status):
        raise ConfigError(f"{verdict}: has no status; pass a verdict that `decide` wrote")
    status = Status(document["status"])
    if decision not in get_args(Decision):
        raise ConfigError(f"--decision {decision}: it is one of {', '.join(get_args(Decision))}")
    if decision != "approve" and not reason:
        raise ConfigError(f"--decision {decision}: give your reason with --reason; it is on record")
    signing_key, book, digest = load_key(key), Ledger(ledger), file_sha256(verdict)
    path, listed = signers_of(agreed.approvals.signers_file, signers)
    signer = listed.get(signing_key.key_id)
    if signer is None:
        raise ConfigError(f"{path}: does not list key {signing_key.key_id}; it cannot approve")
    proposers = _sealed_by(book.entries(), plan_sha256(agreed), listed)
    if decision == "approve" and agreed.approvals.distinct_persons and signer.name in proposers:
        raise ConfigError(
            f"{signer.name} sealed the plan, so this approval would not count; another person signs"
        )
    foreseen = [entry.name for entry in agreed.contingencies]
    explored = exploratory(book, foreseen, listed, plan_sha256(agreed))
    envelope = sign_approval(
        digest,
        decision,  # type: ignore[arg-type]  # checked with the other fields
        signer.role,
        signing_key,
        at=utc_now(),
        expires_days=agreed.approvals.expires_days,
        reason=reason,
    )
    out = verdict.with_suffix(f".{signer.key_id}.approval.json")
    refuse_unwritable(out)  # before anything is on record
    record_approval(envelope, book)
    write_output(out, envelope.to_bytes())
    asked = agreed.approvals
    findings = check_approvals(
        digest,
        decisions_on(digest, book.entries()),
        listed,
        asked.required_roles,
        distinct=asked.distinct_persons,
        now=utc_now(),
        proposers=proposers if asked.distinct_persons else (),
    )
    recorded = recorded_status(status, findings, explored)
    if as_json:
        emit_json(
            {
                "approval": str(out),
                "approval_sha256": envelope.sha256,
                "verdict_sha256": digest,
                "signer": signer.name,
                "role": signer.role,
                "decision": decision,
                "verdict": status.value,
                "recorded_status": recorded,
                "exploratory": explored,
                "findings": [{"flaw": f.flaw.value, "message": f.message} for f in findings],
                "ledger": str(ledger),
                "head": book.head,
            }
        )
        return
    console = stdout()
    console.print(f"{decision}: {signer.name} as {signer.role}, in {out}", markup=False)
    console.print(f"recorded status [{STATUS_STYLE.get(recorded, 'bold')}]{recorded}[/]")
    for because in explored:
        console.print(f"  - EXPLORATORY: {because}", markup=False)
    for finding in findings:
        console.print(f"  - {finding.message}", markup=False)
    console.print(f"head {book.head}", markup=False)
    console.print(f"Commit {out} and {ledger}.", markup=False)


def _sealed_by(entries: Sequence[Entry], plan: str, signers: Signers) -> list[str]:
    """Names of all who sealed the plan: they proposed the change.

    Raises:
        ConfigError: nobody did.
        TamperedError: the seal does not hold.
    """
    from specdecode.governance.dsse import parse_envelope
    from specdecode.governance.sealing import read_seal

    seals = [entry for entry in entries if entry.kind == "seal" and entry.mentions(plan)]
    if not seals:
        raise ConfigError(
            "the plan is not sealed in this ledger, so its verdict decides nothing; name the "
            "ledger that has the seal (--ledger), or seal the plan and measure again"
        )
    envelope = parse_envelope(seals[-1].body.get("envelope") or {})
    return [signer.name for signer in read_seal(envelope, signers, entries).signers]
