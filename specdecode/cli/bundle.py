"""`specdecode bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdecode.cli.console import JsonFlag, emit_json, stdout
from specdecode.cli.documents import read_json_object
from specdecode.cli.keys import DEFAULT_LEDGER, LedgerOption, SignersOption, load_key
from specdecode.cli.plan_seal import signers_of
from specdecode.cli.row_files import refuse_absent
from specdecode.cli.verify import UnsealedFlag
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    pass


def bundle_command(  # noqa: PLR0917 - typer reads each as an option
    out: Annotated[Path, typer.Argument(help="The archive to write.")],
    plan: Annotated[Path, typer.Option("--plan", help="The plan (YAML).")] = Path(
        "plans/default.yaml"
    ),
    rows: Annotated[Path, typer.Option("--rows", help="Recorded rows (parquet).")] = Path(
        "data/rows.parquet"
    ),
    reports: Annotated[
        Path, typer.Option("--reports", help="Folder of verdict.json, audit.json, manifest.json.")
    ] = Path("reports"),
    data_quality: Annotated[
        Path, typer.Option("--data-quality", help="Results of the data checks (JSON).")
    ] = Path("data/validation.json"),
    dvc_lock: Annotated[Path, typer.Option("--dvc-lock", help="Lock file of the pipeline.")] = Path(
        "dvc.lock"
    ),
    card: Annotated[
        list[Path] | None, typer.Option("--card", help="A model card; repeat for more.")
    ] = None,
    signers: SignersOption = None,
    ledger: LedgerOption = DEFAULT_LEDGER,
    key: Annotated[
        str | None, typer.Option("--key", help="Private key that signs the bundle as a whole.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="Time of the bundle; by default of the newest thing in it."),
    ] = None,
    withhold: Annotated[
        Path | None,
        typer.Option("--withhold", help="Leave texts out; a secret file that salts their hashes."),
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option("--show", help="With --withhold: request id of a row to show in full."),
    ] = None,
    unsealed: UnsealedFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write an evidence bundle: all a stranger needs to check the verdict, in one archive.

    The seal and its anchor are read from beside the plan, decisions on the verdict from the ledger.
    The same input gives the same bytes. What was written is verified at once.

    Exit codes: 0 written and in order, whatever the verdict; 12 or 3 written, but `verify` would
    say INVALID or TAMPERED of it; 2 wrong usage.

    Example: specdecode bundle reports/evidence/block.zip --unsealed
    """
    from specdecode.governance import load_plan
    from specdecode.governance.approvals import decisions_on
    from specdecode.governance.bundle import newest, write_bundle
    from specdecode.governance.dsse import parse_envelope
    from specdecode.governance.ledger import verify_ledger
    from specdecode.governance.subjects import file_sha256
    from specdecode.governance.timestamps import parse_utc
    from specdecode.governance.verifier import verify
    from specdecode.governance.withheld import Withheld
    from specdecode.measurement.records import read_parquet

    refuse_absent(rows)
    agreed, table, verdict = load_plan(plan), read_parquet(rows), reports / "verdict.json"
    read_json_object(verdict)
    lines = ledger.read_bytes() if ledger.exists() else None
    entries = () if lines is None else verify_ledger(lines).intact(str(ledger)).entries
    seal_file, anchor_file = plan.with_suffix(".seal.json"), plan.with_suffix(".anchor.json")
    seal = parse_envelope(seal_file.read_bytes()) if seal_file.exists() else None
    if show and withhold is None:
        raise ConfigError("--show goes with --withhold: otherwise every row is shown")
    digest = write_bundle(
        out,
        at=newest(entries, table) if at is None else parse_utc(at),
        plan_file=plan,
        verdict=_bytes(verdict),
        rows=table,
        audit=read_json_object(reports / "audit.json"),
        manifest=read_json_object(reports / "manifest.json"),
        data_quality=_bytes(data_quality),
        dvc_lock=_bytes(dvc_lock),
        seal=seal,
        signers=None
        if seal is None and key is None
        else signers_of(agreed.approvals.signers_file, signers)[0],
        ledger=lines,
        anchors=[read_json_object(anchor_file)] if anchor_file.exists() else (),
        approvals=decisions_on(file_sha256(verdict), entries),
        cards={path.name: _bytes(path) for path in card or ()},
        withheld=None if withhold is None else Withheld(_bytes(withhold), show or ()),
        key=None if key is None else load_key(key),
    )
    result = verify(out, unsealed=unsealed)
    wrong = [check for check in result["checks"] if check["result"] in ("failed", "tampered")]
    document = {"bundle": str(out), "sha256": digest, "status": result["status"], "wrong": wrong}
    _show(document, as_json=as_json)
    raise typer.Exit(result["exit_code"] if wrong else 0)


def _show(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        emit_json(document)
        return
    console = stdout()
    console.print(f"{document['bundle']}  sha256 {document['sha256']}", markup=False)
    for check in document["wrong"]:
        console.print(f"{check['result']}: {check['name']}: {check['text']}", markup=False)
    console.print(f"verify says {document['status']}", markup=False)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
