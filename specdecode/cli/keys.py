"""`specdecode keys …`, and how other commands find a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode.cli.console import JsonFlag, emit_json, stderr, stdout
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode.governance.signing import SigningKey

KeyOption = Annotated[
    str, typer.Option("--key", help="Your private key: its file, or the name it was made under.")
]
SignersOption = Annotated[
    Path | None,
    typer.Option("--signers", help="Keys whose signatures count; by default the plan's file."),
]
LedgerOption = Annotated[Path, typer.Option("--ledger", help="The ledger.")]

DEFAULT_LEDGER = Path("plans/ledger.jsonl")
DEFAULT_SIGNERS = Path("plans/signers.yaml")

keys_app = typer.Typer(help="Make and show signing keys.", no_args_is_help=True)


@keys_app.callback()
def _keys() -> None:
    """Make and show signing keys."""


@keys_app.command("new")
def new_command(
    name: Annotated[str, typer.Argument(help="Whose key it is, as in the signers file.")],
    role: Annotated[str, typer.Option("--role", help="What it signs as.")] = "owner",
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where the private key goes; by default your own folder."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make an Ed25519 key and print its entry for the signers file.

    The private key stays in a file that only you can read, outside the repository.

    Example: specdecode keys new Ada --role owner
    """
    from specdecode.governance.signing import SigningKey

    path = _named(name) if out is None else out
    key = SigningKey.generate()
    key.save(path)
    _show(path, key, name, role, as_json=as_json)


@keys_app.command("show")
def show_command(
    key: Annotated[str, typer.Argument(help="The key's file, or the name it was made under.")],
    role: Annotated[str, typer.Option("--role", help="What it signs as.")] = "owner",
    as_json: JsonFlag = False,
) -> None:
    """Print a key's public half, as an entry for the signers file.

    Example: specdecode keys show Ada
    """
    path = _path(key)
    _show(path, load_key(key), path.stem, role, as_json=as_json)


def load_key(given: str) -> SigningKey:
    """The private key in a file, or made under a name.

    Raises:
        ConfigError: there is none, or others may read it.
    """
    from specdecode.governance.signing import SigningKey

    return SigningKey.load(_path(given))


def _path(given: str) -> Path:
    return Path(given) if Path(given).is_file() or "/" in given else _named(given)


def _named(name: str) -> Path:
    if "/" in name or name.startswith("."):
        raise ConfigError(f"{name!r} cannot name a file; say where the key goes with --out")
    return Path(typer.get_app_dir("specdecode")) / "keys" / f"{name}.pem"


def _show(path: Path, key: SigningKey, name: str, role: str, *, as_json: bool) -> None:
    from specdecode.governance.signing import encode_base64

    public = encode_base64(key.public_key)
    entry = {"name": name, "role": role, "public_key": public}
    if as_json:
        emit_json({"file": str(path), "key_id": key.key_id, "signer": entry})
        return
    console = stdout()
    console.print(f"private key {path}", markup=False)
    console.print(f"key id      {key.key_id}", markup=False)
    console.print("\nEntry for the plan's file of signers, such as plans/signers.yaml:\n")
    lines = [f"{field}: {json.dumps(value, ensure_ascii=False)}" for field, value in entry.items()]
    console.print("- " + "\n  ".join(lines), markup=False)
    # On stderr, so that the entry can be taken from a pipe as it is.
    stderr().print(
        f'A key knows no role: "{role}" is what --role says. Commit the file before you seal.',
        markup=False,
    )
