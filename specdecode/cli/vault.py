"""`specdecode vault …`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode.cli.console import JsonFlag, emit_json, stdout
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode.workload import Prompt

vault_app = typer.Typer(help="Lock confirmation prompts away.", no_args_is_help=True)


@vault_app.callback()
def _vault() -> None:
    """Lock confirmation prompts away."""


@vault_app.command("key")
def key_command(
    file: Annotated[Path, typer.Argument(help="Where the key goes, outside the repository.")],
    as_json: JsonFlag = False,
) -> None:
    """Make a holder's key, in a file that only you can read.

    With two holders, two keys, neither of them can look alone.
    """
    from specdecode.governance.vault_key import new_share

    identifier = new_share(file)
    if as_json:
        emit_json({"file": str(file), "key_id": identifier})
        return
    stdout().print(f"vault key {identifier} in {file}", markup=False)


@vault_app.command("lock")
def lock_command(  # noqa: PLR0917 - typer reads each as an option
    prompts: Annotated[Path, typer.Argument(help="Prompts: a JSONL file, or a folder of them.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the new vault.")],
    key: Annotated[
        list[Path], typer.Option("--key", help="A holder's key; repeat for every holder.")
    ],
    order_seed: Annotated[
        int | None,
        typer.Option("--order-seed", min=0, help="Lock them all, in the order this seed draws."),
    ] = None,
    params: Annotated[
        Path | None,
        typer.Option("--params", help="Lock the reserve half, as these parameters split it."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Encrypt prompts, in a drawn order, into a vault that only `specdecode confirm` opens.

    Writes confirmation.enc and confirmation.json; the second tells number, strata and Merkle root,
    and is what a plan's seal names (`plan seal --confirmation`).

    Example: specdecode vault lock held_out.jsonl --order-seed 7 --key ../holder.key --out
    eval_sets/confirmation
    """
    from specdecode.governance.vault import lock
    from specdecode.governance.vault_key import read_share
    from specdecode.workload import load_prompts
    from specdecode.workload.split import seeded_hash

    if params is not None and order_seed is None:
        found, seed = _reserve(prompts, params)
    elif order_seed is not None and params is None:
        found, seed = load_prompts(prompts), order_seed
    else:
        raise ConfigError("pass --order-seed to lock all prompts, or --params to lock half of them")
    found.sort(key=lambda prompt: (seeded_hash(seed, prompt.prompt_id), prompt.prompt_id))
    documents = [prompt.model_dump(mode="json", by_alias=True) for prompt in found]
    manifest = lock(documents, out, [read_share(path) for path in key])
    if as_json:
        emit_json({"folder": str(out), **manifest.model_dump(mode="json", by_alias=True)})
        return
    console = stdout()
    console.print(f"{manifest.count} prompts locked in {out}", markup=False)
    console.print(f"Merkle root {manifest.merkle_root}", markup=False)
    console.print("Remove their plain text now, from the history it is kept in too.")


def _reserve(prompts: Path, params: Path) -> tuple[list[Prompt], int]:
    """The half that the same parameters keep from the development table, and its order's seed."""
    from specdecode.governance.yaml_file import read_yaml
    from specdecode.workload import load_prompts
    from specdecode.workload.split import RESERVE, assign_splits

    document = read_yaml(params, "parameters")
    try:
        section = document["prompts"]  # type: ignore[index]  # told below
        found = load_prompts(prompts, first_turn_only=section["first_turn_only"])
        half = assign_splits(
            found,
            seed=section["split_seed"],
            jaccard=section["near_duplicate_jaccard"],
            overlap=section["near_duplicate_overlap"],
        )
        seed = int(section["order_seed"])
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{params}: prompts: not the parameters of a run ({error!r})") from error
    return [prompt for prompt in found if half[prompt.prompt_id] == RESERVE], seed
