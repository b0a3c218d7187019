"""`specdecode distil` and the commands below it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from specdecode.cli import distil_options as option
from specdecode.cli.console import JsonFlag, emit_json, number, stdout
from specdecode.cli.distil_log import log_lines
from specdecode.cli.quiet import no_progress_in_a_pipe
from specdecode.cli.target import DEFAULT_TARGET, find_target

_HELP = (
    "Train a small draft on what the target itself writes, and say how often it will be "
    "accepted.\n\n"
    "Safe to kill: the same command goes on where it was. The draft is in --out, its texts and "
    "checkpoints in --work.\n\n"
    "Exit codes: 0 done, 2 wrong usage or texts that meet withheld prompts, 1 anything else.\n\n"
    "Example: specdecode distil --target models/target --out models/distilled --minutes 60"
)

distil_app = typer.Typer(help="Train a small draft on what the target itself writes.")


@distil_app.callback(invoke_without_command=True, help=_HELP)
def distil_command(
    context: typer.Context,
    *,
    target: option.Target = DEFAULT_TARGET,
    out: Annotated[Path, typer.Option(help="Folder of the draft.")] = Path("models/distilled"),
    work: Annotated[
        Path | None, typer.Option(help="Folder of the parts; OUT/work by default.")
    ] = None,
    minutes: option.Minutes = None,
    tokens: option.Tokens = 1_000_000,
    layers: Annotated[int, typer.Option(min=1, max=4, help="Decoder layers.")] = 2,
    head: Annotated[str, typer.Option(help="Tokens it can propose, or full.")] = "8192",
    passes: option.Passes = 4,
    learning_rate: option.LearningRate = 5e-4,
    prompts: option.Prompts = None,
    withheld: option.WithheldPaths = None,
    confirmation: option.Confirmation = None,
    held_out: option.HeldOut = 96,
    user_tokens: option.UserTokens = 64,
    reply_tokens: option.ReplyTokens = 192,
    seed: option.Seed = 0,
    device: option.Device = "auto",
    dtype: option.Dtype = "auto",
    as_json: JsonFlag = False,
) -> None:
    """See `_HELP`."""
    if context.invoked_subcommand is not None:
        return
    from specdecode.distil import TrainingSettings, distil

    no_progress_in_a_pipe()
    with log_lines():
        report = distil(
            find_target(target),
            out,
            work=work,
            withheld=option.withheld_from(withheld, confirmation),
            synthesis=option.synthesis_settings(
                tokens=tokens,
                held_out=held_out,
                user_tokens=user_tokens,
                reply_tokens=reply_tokens,
                seed=seed,
            ),
            training=TrainingSettings(
                layers=layers,
                head=option.head_size("--head", head),
                passes=passes,
                learning_rate=learning_rate,
                seed=seed,
            ),
            prompts=option.user_turns(prompts),
            minutes=minutes,
            device=device,
            dtype=dtype,
        )
    if as_json:
        emit_json({**report, "folder": str(out)})
        return
    show_acceptance(report["evaluation"])
    stdout().print(
        f"draft in {out}, trained on {report['tokens']} tokens in {report['steps']} steps",
        markup=False,
    )


def show_acceptance(evaluation: Mapping[str, Any]) -> None:
    """Print expected acceptance, one line a draft."""
    console = stdout()
    console.print(
        f"expected acceptance on {evaluation['positions']} positions of {evaluation['texts']} "
        "replies held out (± standard error)",
        markup=False,
    )
    names = {"1": "T = 1", "0.7": "T = 0.7", "0": "greedy"}
    for draft, by_temperature in evaluation["drafts"].items():
        parts = [
            f"{names[t]} {number(found['expected_acceptance'])} ± {number(found['standard_error'])}"
            for t, found in by_temperature.items()
        ]
        console.print(f"{draft}: {', '.join(parts)}", markup=False)


@distil_app.command("export")
def export_command(
    *,
    target: option.Target = DEFAULT_TARGET,
    draft: Annotated[Path, typer.Option(help="Folder of a draft made by `distil`.")],
    to: Annotated[Path, typer.Option(help="New folder.")],
    work: Annotated[
        Path | None, typer.Option(help="Folder of its parts; DRAFT/work by default.")
    ] = None,
    device: option.Device = "auto",
    dtype: option.Dtype = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Write the draft for transformers, vLLM and llama.cpp: a plain Llama folder, all tokens.

    Example: specdecode distil export --draft models/distilled --to models/portable
    """
    from specdecode.distil import export

    no_progress_in_a_pipe()
    with log_lines():
        report = export(find_target(target), draft, to, work=work, device=device, dtype=dtype)
    if as_json:
        emit_json({**report, "folder": str(to)})
        return
    show_acceptance(report["evaluation"])
    stdout().print(f"plain Llama folder in {to}", markup=False)


@distil_app.command("compare")
def compare_command(
    *,
    target: option.Target = DEFAULT_TARGET,
    out: Annotated[Path, typer.Option(help="Folder of all drafts and the table.")] = Path(
        "models/sizes"
    ),
    layers: Annotated[str, typer.Option(help="Numbers of layers, such as 1,2,4.")] = "1,2,4",
    heads: Annotated[
        str, typer.Option(help="Sizes of the head, such as 4096,8192,16384,full.")
    ] = "4096,8192,16384,full",
    minutes: Annotated[
        float | None,
        typer.Option(help="For the texts and all trainings together; timing comes on top."),
    ] = None,
    tokens: option.Tokens = 1_000_000,
    passes: option.Passes = 4,
    learning_rate: option.LearningRate = 5e-4,
    lengths: Annotated[str, typer.Option(help="Draft lengths to time, such as 2,4.")] = "2,3,4,6",
    rounds: Annotated[int, typer.Option(min=1, help="How often all is timed.")] = 3,
    timed_prompts: Annotated[int, typer.Option(min=1, help="Prompts that are timed.")] = 8,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of every reply timed.")] = 64,
    temperature: Annotated[float, typer.Option(help="Of the replies timed.")] = 1.0,
    prompts: option.Prompts = None,
    withheld: option.WithheldPaths = None,
    confirmation: option.Confirmation = None,
    held_out: option.HeldOut = 96,
    user_tokens: option.UserTokens = 64,
    reply_tokens: option.ReplyTokens = 192,
    seed: option.Seed = 0,
    device: option.Device = "auto",
    dtype: option.Dtype = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Train drafts of several sizes on the same texts and time each against plain decoding.

    Example: specdecode distil compare --layers 1,2 --heads 8192,full --out models/sizes
    """
    from specdecode.cli.sweep_options import numbers
    from specdecode.distil import TrainingSettings, compare
    from specdecode.distil.sizes import Timing, table

    no_progress_in_a_pipe()
    with log_lines():
        document = compare(
            find_target(target),
            out,
            layers=numbers("--layers", layers),
            heads=[option.head_size("--heads", part.strip()) for part in heads.split(",")],
            withheld=option.withheld_from(withheld, confirmation),
            synthesis=option.synthesis_settings(
                tokens=tokens,
                held_out=held_out,
                user_tokens=user_tokens,
                reply_tokens=reply_tokens,
                seed=seed,
            ),
            training=TrainingSettings(passes=passes, learning_rate=learning_rate, seed=seed),
            timing=Timing(
                lengths=numbers("--lengths", lengths),
                prompts=timed_prompts,
                rounds=rounds,
                max_tokens=max_tokens,
                temperature=temperature,
                seed=seed,
            ),
            prompts=option.user_turns(prompts),
            minutes=minutes,
            device=device,
            dtype=dtype,
        )
    if as_json:
        emit_json(document)
        return
    stdout().print(table(document), markup=False)


@distil_app.command("withhold")
def withhold_command(
    prompts: Annotated[Path, typer.Argument(help="Prompts: a JSONL file, or a folder of them.")],
    out: Annotated[Path, typer.Option("--out", help="File of the digests, .json.")],
    as_json: JsonFlag = False,
) -> None:
    """Write digests of prompts, for somebody who must not train on them and may not read them.

    Example: specdecode distil withhold held_out.jsonl --out withheld.json
    """
    from specdecode.distil import write_withheld
    from specdecode.errors import ConfigError

    if out.suffix != ".json":
        raise ConfigError(
            f"--out {out}: name a file that ends in .json, as it is read back by that"
        )
    page = write_withheld(prompts, out)
    if as_json:
        emit_json({"file": str(out), "prompts": page.prompts})
        return
    stdout().print(f"digests of {page.prompts} prompts in {out}", markup=False)
