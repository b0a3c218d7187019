"""`specdecode verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from specdecode.cli.console import STATUS_STYLE, JsonFlag, emit_json, stdout
from specdecode.errors import ConfigError

UnsealedFlag = Annotated[
    bool, typer.Option("--unsealed", help="Accept evidence whose plan nobody sealed.")
]

_RESULT_STYLE = {
    "ok": "green",
    "waived": "yellow",
    "failed": "bold magenta",
    "tampered": "bold red",
}


def verify_command(
    bundle: Annotated[Path, typer.Argument(help="The archive, or the folder it was unpacked to.")],
    signer: Annotated[
        list[str] | None,
        typer.Option("--signer", help="A public key you trust (base64); repeat for more."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option("--head", help="SHA-256 of a ledger line that you know from elsewhere."),
    ] = None,
    unsealed: UnsealedFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Check an evidence bundle, offline: every hash, signature and number that can be.

    The same program travels in every bundle as verify.py and needs only Python there.

    Exit codes: 0 GO, 10 NO_GO, 11 INCONCLUSIVE, 12 INVALID (or something could not be checked),
    3 TAMPERED, 2 wrong usage.
    """
    from specdecode.governance.verifier import verify

    if not bundle.exists():
        raise ConfigError(f"{bundle}: there is no such bundle; `specdecode bundle` writes one")
    result = verify(bundle, signer or (), head, unsealed)
    if as_json:
        emit_json(result)
    else:
        console = stdout()
        for check in result["checks"]:
            style, word = _RESULT_STYLE[check["result"]], check["result"]
            line = f"[{style}]{word:<8}[/] {check['name']:<9} {escape(check['text'])}"
            console.print(line)
        status = result["status"]
        console.print(f"[{STATUS_STYLE.get(status, 'bold red')}]{status}[/]")
    raise typer.Exit(result["exit_code"])
