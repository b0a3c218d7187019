"""`specdecode vault …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdecode.cli.console import JsonFlag, emit_json, stdout
from specdecode.cli.vault_lock import all_of, refuse_keys_beside, reserve_of, room
from specdecode.errors import ConfigError

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

    Example: specdecode vault key ../holder.key
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
    plain: Annotated[
        list[Path] | None,
        typer.Option("--plain", help="Public prompts that must not hold these; repeat for more."),
    ] = None,
    no_plain: Annotated[
        bool, typer.Option("--no-plain", help="There are no public prompts to compare with.")
    ] = False,
    target: Annotated[
        Path | None,
        typer.Option(
            "--target", help="Folder of the target model, into whose context all must fit."
        ),
    ] = None,
    reply_tokens: Annotated[
        int,
        typer.Option("--reply-tokens", min=1, help="Room that a prompt must leave, with --target."),
    ] = 64,
    demonstration: Annotated[
        bool,
        typer.Option("--demonstration", help="The key is public: a set to try the procedure with."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Encrypt prompts, in a drawn order, into a vault that only `specdecode confirm` opens.

    Prompts are judged first: references pass their checkers, checkers are where the public prompts
    of a category all have one, and none may be found, whole or in part, among the public prompts.

    Writes confirmation.enc and confirmation.json; the second tells number, strata, Merkle root, who
    has the key and what was compared. It is what a plan's seal names (`plan seal --confirmation`).

    Example: specdecode vault lock held_out.jsonl --order-seed 7 --plain eval_sets/prompts --key
    ../holder.key --out eval_sets/confirmation
    """
    from specdecode.governance.vault import lock
    from specdecode.governance.vault_key import read_share
    from specdecode.governance.vault_page import CUSTODY, DEMONSTRATION, HELD
    from specdecode.workload.held_out import always_checked, refuse_invalid

    if params is not None and order_seed is None:
        if no_plain:
            raise ConfigError("--no-plain: with --params the half that is not locked is public")
        chosen = reserve_of(prompts, params, plain or [])
    elif order_seed is not None and params is None:
        if bool(plain) == no_plain:
            raise ConfigError(
                "name the public prompts that must not hold these (--plain eval_sets/prompts), or "
                "say --no-plain if there are none"
            )
        chosen = all_of(prompts, order_seed, plain or [])
    else:
        raise ConfigError("pass --order-seed to lock all prompts, or --params to lock half of them")
    if not demonstration:
        refuse_keys_beside(key, out)
    refuse_invalid(chosen.prompts, always_checked(chosen.public))
    manifest = lock(
        [prompt.model_dump(mode="json", by_alias=True) for prompt in chosen.prompts],
        out,
        [read_share(path, public=demonstration) for path in key],
        custody=DEMONSTRATION if demonstration else HELD,
        compared=chosen.compared(),
        room=None if target is None else room(chosen.prompts, target, reply_tokens),
    )
    if as_json:
        emit_json({"folder": str(out), **manifest.model_dump(mode="json", by_alias=True)})
        return
    lines = [f"{manifest.count} prompts locked in {out}", f"Merkle root {manifest.merkle_root}"]
    lines += [f"custody {CUSTODY[manifest.custody]}"]
    if (found := manifest.compared) is None:
        lines += ["compared with nothing: that they are not public rests on your word"]
    else:
        lines += [
            f"compared with {found.prompts} public prompts: shares at most "
            f"{found.largest_overlap:g} of the 13-word runs, Jaccard index at most "
            f"{found.largest_jaccard:g}"
        ]
    if manifest.room is None:
        lines += ["lengths not checked; --target does that"]
    lines += ["Remove their plain text now, from the history it is kept in too."]
    for line in lines:
        stdout().print(line, markup=False)
