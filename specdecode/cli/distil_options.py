"""Options that the commands of `specdecode distil` share, and what they mean together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode.cli.console import stderr
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode.distil import SynthesisSettings, Withheld
    from specdecode.workload.prompts import Prompt

DEVELOPMENT = Path("eval_sets/prompts")
CONFIRMATION = Path("eval_sets/confirmation/withheld.json")

Target = Annotated[str, typer.Option(help="Target model, as for `generate`.")]
Minutes = Annotated[
    float | None,
    typer.Option(help="Time limit, counted over all runs; without it all tokens and passes."),
]
Tokens = Annotated[
    int, typer.Option(min=1, help="Tokens for the target to write, unless time ends first.")
]
Prompts = Annotated[
    Path | None, typer.Option(help="User turns beside those the target writes: JSON lines.")
]
WithheldPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--withheld",
        help="Prompts never to train on, or digests of them; repeat for more. "
        f"By default {DEVELOPMENT}.",
    ),
]
Confirmation = Annotated[
    Path | None,
    typer.Option(
        help="Digests of the confirmation prompts (`distil withhold`). "
        f"By default {CONFIRMATION}, if it is there."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Of texts and training.")]
Passes = Annotated[int, typer.Option(min=1, help="Over the texts.")]
LearningRate = Annotated[float, typer.Option(help="The highest one.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda[:index].")]
Dtype = Annotated[str, typer.Option(help="Of the target: auto, bfloat16, float32.")]
HeldOut = Annotated[
    int, typer.Option(min=1, help="Conversations kept for the evaluation, never trained on.")
]
UserTokens = Annotated[int, typer.Option(min=1, help="Longest user turn.")]
ReplyTokens = Annotated[int, typer.Option(min=1, help="Longest reply.")]


def head_size(option: str, text: str) -> int | None:
    """A number of tokens, or None for `full`.

    Raises:
        ConfigError: it is neither.
    """
    if text == "full":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{option} {text}: write a number of tokens such as 8192, or full")
    return int(text)


def withheld_from(paths: list[Path] | None, confirmation: Path | None) -> Withheld:
    """Everything that must not be trained on.

    Raises:
        ConfigError: nothing to compare with.
    """
    from specdecode.distil import Withheld, read_withheld

    if paths is None and not DEVELOPMENT.exists():
        raise ConfigError(
            f"{DEVELOPMENT} is not here: name the prompts that must not be trained on with "
            "--withheld, so that the check compares with something"
        )
    pages = [read_withheld(path) for path in paths or [DEVELOPMENT]]
    if confirmation is None and CONFIRMATION.is_file():
        confirmation = CONFIRMATION
    if confirmation is not None:
        pages.append(read_withheld(confirmation))
    else:
        stderr().print(
            "no digests of confirmation prompts: texts are compared with the other prompts only "
            "(their holder makes digests with `specdecode distil withhold`)",
            markup=False,
        )
    return Withheld(tuple(pages))


def user_turns(path: Path | None) -> list[Prompt]:
    """Further user turns, or none."""
    from specdecode.workload.prompts import load_prompts

    return [] if path is None else load_prompts(path, first_turn_only=True)


def synthesis_settings(
    *, tokens: int, held_out: int, user_tokens: int, reply_tokens: int, seed: int
) -> SynthesisSettings:
    """What is written."""
    from specdecode.distil import SynthesisSettings

    return SynthesisSettings(
        tokens=tokens,
        held_out=held_out,
        user_tokens=user_tokens,
        reply_tokens=reply_tokens,
        seed=seed,
    )
