"""`specdecode plan amend`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from specdecode.cli.console import JsonFlag, emit_json, stdout
from specdecode.cli.keys import DEFAULT_LEDGER, KeyOption, LedgerOption, SignersOption, load_key
from specdecode.cli.plan_seal import signers_of
from specdecode.errors import ConfigError


def amend_command(  # noqa: PLR0917 - typer reads each as an option
    file: Annotated[Path, typer.Argument(help="The sealed plan (YAML).")],
    key: KeyOption,
    stage: Annotated[str, typer.Option("--stage", help="Stage of the plan it concerns.")],
    what: Annotated[str, typer.Option("--what", help="What is done instead.")],
    why: Annotated[str, typer.Option("--why", help="The reason.")],
    data_seen: Annotated[
        str,
        typer.Option("--data-seen", help="Results you have seen: none, dev, partial or full."),
    ],
    impact: Annotated[str, typer.Option("--impact", help="What it may do to the conclusion.")],
    contingency: Annotated[
        str | None,
        typer.Option("--contingency", help="The plan's contingency that it follows, if any."),
    ] = None,
    signers: SignersOption = None,
    ledger: LedgerOption = DEFAULT_LEDGER,
    as_json: JsonFlag = False,
) -> None:
    """Put a deviation from a sealed plan on record, signed.

    The plan's file stays as it was sealed. Once the confirmation set is open, or its results were
    seen, a deviation that the plan does not foresee makes the result exploratory.

    Example: specdecode plan amend plans/default.yaml --key Ada --stage dev
    --what "60 prompts instead of 80" --why "the machine goes back tonight" --data-seen none
    --impact "wider intervals"
    """
    from specdecode.governance.amendments import amend, exploratory
    from specdecode.governance.ledger import Ledger
    from specdecode.governance.plan import load_plan, plan_sha256
    from specdecode.governance.statements import DataSeen, Deviation, make_predicate
    from specdecode.governance.timestamps import utc_now, utc_text

    plan, signing_key, book = load_plan(file), load_key(key), Ledger(ledger)
    path, listed = signers_of(plan.approvals.signers_file, signers)
    author = listed.get(signing_key.key_id)
    if author is None:
        raise ConfigError(f"{path}: does not list key {signing_key.key_id}; add it first")
    if stage not in [entry.name for entry in plan.stages]:
        names = ", ".join(entry.name for entry in plan.stages)
        raise ConfigError(f"--stage {stage}: the plan has no such stage; it has {names}")
    if data_seen not in get_args(DataSeen):
        raise ConfigError(f"--data-seen {data_seen}: it is one of {', '.join(get_args(DataSeen))}")
    digest, foreseen = plan_sha256(plan), [entry.name for entry in plan.contingencies]
    deviation = make_predicate(
        Deviation,
        plan_sha256=digest,
        when=utc_text(utc_now()),
        stage=stage,
        what=what,
        why=why,
        data_seen=data_seen,
        impact=impact,
        author=author.name,
        contingency=contingency,
    )
    envelope = amend(deviation, signing_key, book, foreseen)
    reasons = exploratory(book, foreseen, listed, digest)
    if as_json:
        emit_json(
            {
                "deviation": deviation.model_dump(mode="json"),
                "deviation_sha256": envelope.sha256,
                "ledger": str(ledger),
                "head": book.head,
                "exploratory": reasons,
            }
        )
        return
    console = stdout()
    console.print(f"recorded in {ledger} by {author.name} at {deviation.when}", markup=False)
    if not reasons:
        console.print("The result can still confirm the claim.")
    for reason in reasons:
        console.print(f"EXPLORATORY: {reason}", markup=False)
    console.print(f"head {book.head}", markup=False)
    console.print(f"Commit {ledger}.", markup=False)
