"""`specdecode plan seal`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdecode.cli.console import JsonFlag, emit_json, stdout
from specdecode.cli.keys import (
    DEFAULT_LEDGER,
    DEFAULT_SIGNERS,
    KeyOption,
    LedgerOption,
    SignersOption,
    load_key,
)
from specdecode.cli.outputs import refuse_unwritable, write_output
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode.governance.plan_schema import Plan
    from specdecode.governance.signers import Signers


def seal_command(  # noqa: PLR0917 - typer reads each as an option
    file: Annotated[Path, typer.Argument(help="The plan (YAML).")],
    key: KeyOption,
    code: Annotated[
        list[str] | None,
        typer.Option("--code", help="Code to seal, relative to the repository; repeat for more."),
    ] = None,
    lock: Annotated[Path, typer.Option("--lock", help="Lock file of the environment.")] = Path(
        "requirements.lock"
    ),
    manifest: Annotated[
        list[Path] | None,
        typer.Option("--manifest", help="A file to seal too, such as inputs; repeat for more."),
    ] = None,
    confirmation: Annotated[
        Path | None,
        typer.Option("--confirmation", help="Manifest of the locked confirmation set."),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(
            "--power", min=0, max=1, help="Chance of GO, if known; else it is simulated now."
        ),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Simulated runs, as of `plan power`.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    anchor: Annotated[
        str, typer.Option("--anchor", help="Who vouches for the ledger: none, git-tag or rfc3161.")
    ] = "none",
    signers: SignersOption = None,
    ledger: LedgerOption = DEFAULT_LEDGER,
    as_json: JsonFlag = False,
) -> None:
    """Sign a plan with what it will be judged by, and put it on record before there are data.

    Refused when code is not committed, when the confirmation set was opened, and when the chance of
    GO at some stage is below what the plan asks for. Writes PLAN.seal.json and PLAN.anchor.json
    beside the plan.

    Example: specdecode plan seal plans/default.yaml --key Ada --code specdecode
    """
    from specdecode.governance.anchor import anchor_named
    from specdecode.governance.canonical import canonical_bytes
    from specdecode.governance.ledger import Ledger
    from specdecode.governance.opened import OPENED_NAME
    from specdecode.governance.plan import load_plan
    from specdecode.governance.sealing import CONFIRMATION_SUBJECT, seal_plan, verify_seal
    from specdecode.governance.subjects import (
        TREE,
        file_sha256,
        present_subjects,
        tree_is_clean,
    )
    from specdecode.governance.timestamps import utc_now
    from specdecode.governance.vault import read_vault

    plan, book, signing_key = load_plan(file), Ledger(ledger), load_key(key)
    files = {
        "seal": file.with_suffix(".seal.json"),
        "anchor_evidence": file.with_suffix(".anchor.json"),
    }
    refuse_unwritable(*files.values())  # before anything is on record
    root = repository(file)
    signers_path, listed = signers_of(plan.approvals.signers_file, signers)
    if listed.get(signing_key.key_id) is None:
        raise ConfigError(
            f"{signers_path}: does not list key {signing_key.key_id}, so nobody could check the "
            "seal; `specdecode keys show` prints the entry to add"
        )
    own = [inside(root, ledger)]
    names = [TREE + path for path in code or ["."]]
    names += [inside(root, path) for path in (lock, signers_path, *(manifest or []))]
    subjects = dict(present_subjects(root, names, own))
    page = None if confirmation is None else read_vault(confirmation.parent).manifest
    if confirmation is not None:
        subjects[CONFIRMATION_SUBJECT] = file_sha256(confirmation)
    clean = tree_is_clean(root, own)
    basis = "stated by who sealed"
    if power is None and clean:  # a tree that is not clean is refused at once, without the wait
        power, basis = _simulated(plan, runs, seed)
    chosen = anchor_named(anchor, root)
    envelope = seal_plan(
        plan,
        subjects,
        signing_key,
        book,
        chosen,
        at=utc_now(),
        tree_clean=clean,
        confirmation_opened=confirmation is not None
        and confirmation.with_name(OPENED_NAME).exists(),
        power=power,
        power_wanted=plan.power.wanted,
        power_basis=basis,
    )
    seal = verify_seal(envelope, plan, subjects, listed, book)
    evidence = chosen.attest(seal.entry.sha256).model_dump(mode="json")
    write_output(files["seal"], envelope.to_bytes())
    write_output(files["anchor_evidence"], canonical_bytes(evidence) + b"\n")
    document = {
        **{name: str(path) for name, path in files.items()},
        "seal_sha256": envelope.sha256,
        "plan_sha256": seal.predicate.plan_sha256,
        "subjects": dict(seal.subjects),
        "custody": page and page.custody,
        "signer": seal.signers[0].name,
        "power": power,
        "power_basis": basis,
        "at": seal.entry.at,
        "ledger": str(ledger),
        "line": seal.entry.sequence + 1,
        "head": seal.entry.sha256,
        "anchor": evidence,
    }
    if as_json:
        emit_json(document)
    else:
        _show(document)


def _simulated(plan: Plan, runs: int, seed: int) -> tuple[float, str]:
    """The chance of GO of the stage that has the smallest, and how it is known.

    Each stage asks for a decision of its own, so each must be worth its evidence. The chance of all
    in turn is smaller, and is put on record beside it.
    """
    from specdecode.governance.power_ladder import climb
    from specdecode.governance.verdict import Status

    found = climb(plan, runs=runs, seed=seed)
    basis = f"simulated: {runs} runs, seed {seed}"
    if len(found.reached) > 1 and found.walks is not None:
        basis += (
            f", of each stage; smallest at {found.weakest.stage}, "
            f"{found.walks[Status.GO].rate:g} for {', '.join(found.reached)} in turn"
        )
    return found.weakest.chances[Status.GO].rate, basis


def _show(document: Mapping[str, Any]) -> None:
    from specdecode.governance.vault_page import CUSTODY

    console, anchor = stdout(), document["anchor"]
    lines = [f"sealed by {document['signer']} at {document['at']}"]
    lines += [f"chance of GO {document['power']:g} ({document['power_basis']})"]
    lines += [f"  {digest[:16]}  {name}" for name, digest in document["subjects"].items()]
    if (custody := document["custody"]) is not None:
        lines += [f"confirmation set: custody {CUSTODY[custody]}"]
    lines += [f"ledger {document['ledger']}, line {document['line']}", f"head   {document['head']}"]
    proof = "with proof" if anchor["proof"] else "without proof: keep the head elsewhere"
    lines += [f"anchor {anchor['name']}, {proof}"]
    lines += [f"Commit {document['seal']}, {document['anchor_evidence']} and the ledger."]
    for line in lines:
        console.print(line, markup=False)


def repository(file: Path) -> Path:
    """Root of the repository the file is in."""
    from specdecode.governance.git import git

    top = git(file.absolute().parent, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(top.removesuffix(b"\n")))


def signers_of(named: str | None, given: Path | None) -> tuple[Path, Signers]:
    """The signers file in force, and who is in it.

    Args:
        named: the plan's.
        given: on the command line.

    Raises:
        ConfigError: it is not there or not valid, or is another than the plan names.
    """
    from specdecode.governance.signers import load_signers

    if given is not None and named is not None and given.resolve() != Path(named).resolve():
        raise ConfigError(f"--signers {given}: the plan names {named}, and only that counts")
    path = given or Path(named or DEFAULT_SIGNERS)
    return path, load_signers(path)


def inside(root: Path, path: Path) -> str:
    """The path as git names it.

    Raises:
        ConfigError: it lies outside the repository.
    """
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError as error:
        raise ConfigError(f"{path}: lies outside the repository {root}; move it inside") from error
