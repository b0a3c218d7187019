"""`specdecode plan new`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from rich.markup import escape

from specdecode.cli.console import JsonFlag, emit_json, stderr, stdout
from specdecode.cli.exit_codes import INTERRUPTED
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from specdecode.governance.plan_answers import Answers


def new_command(
    file: Annotated[Path, typer.Argument(help="The plan to write (YAML); must not exist.")],
    answers: Annotated[
        Path | None,
        typer.Option("--answers", help="The seven answers (YAML), instead of a terminal."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Ask the seven questions and write a commented plan that `plan check` accepts.

    The questions: purpose, mechanism, baseline, evidence, operation, risk, recovery. Nothing is
    written when the answers contradict each other, and no file is overwritten.

    Example: specdecode plan new plans/draft.yaml --answers answers.yaml
    """
    from specdecode.governance import load_plan, plan_sha256
    from specdecode.governance.plan_answers import load_answers
    from specdecode.governance.plan_template import plan_of

    if file.exists():
        raise ConfigError(f"{file}: exists already; a plan is never overwritten, take a new name")
    if answers is not None:
        text = plan_of(load_answers(answers))
    else:
        said = _ask(file)
        try:
            text = plan_of(said)
        except ConfigError as error:
            kept = _keep(said.model_dump(), file)
            raise ConfigError(
                f"{error}\nyour answers are kept in {kept}; correct them there and give the file "
                "with --answers"
            ) from error
    _create(file, text)
    digest = plan_sha256(load_plan(file))
    if as_json:
        emit_json({"file": str(file), "plan_sha256": digest})
        return
    console = stdout()
    console.print(f"{escape(str(file))}: written")
    console.print(f"plan_sha256 {digest}")
    for command in ("plan check", "plan power", "plan seal"):
        key = " --key YOURS" if command == "plan seal" else ""
        console.print(f"next: specdecode {command} {file}{key}", markup=False)


def _keep(said: Mapping[str, Any], file: Path) -> Path:
    """Write half an hour of answers beside the plan they did not make, over no other file."""
    import yaml

    names = (file.with_suffix(f".answers{number or ''}.yaml") for number in count())
    kept = next(name for name in names if not name.exists())
    _create(kept, yaml.safe_dump(dict(said), sort_keys=False, allow_unicode=True))
    return kept


def _create(file: Path, text: str) -> None:
    from specdecode.governance.durable import create_file

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        create_file(file, text.encode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror or error})") from error


def _ask(file: Path) -> Answers:
    """All answers from a terminal, one part after another; a wrong one is asked for again.

    Args:
        file: the plan they are for; beside it the answers are kept if the person stops.

    Raises:
        ConfigError: nobody is there to ask.
        typer.Exit: the person stopped.
    """
    from specdecode.governance.plan_answers import Answers

    if not sys.stdin.isatty():
        raise ConfigError(
            "there is no terminal to ask on; give the answers with --answers FILE "
            "(docs/plan.md has one to copy)"
        )
    stderr().print(
        "Seven questions with some parts each. Enter takes what stands in brackets; nothing is "
        "written before the last answer."
    )
    found: dict[str, dict[str, Any]] = {}
    try:
        for question, field in Answers.model_fields.items():
            model: Any = field.annotation
            stderr().print(f"\n[bold]{escape(str(model.__doc__).splitlines()[0])}[/]")
            answered = found[question] = {}
            for name, part in model.model_fields.items():
                answered[name] = _answer(part)
    except typer.Abort as stopped:
        stderr().print(
            f"\nStopped. Your answers are kept in {_keep(found, file)}; write the others there and "
            "give the file with --answers.",
            markup=False,
        )
        raise typer.Exit(INTERRUPTED) from stopped
    return Answers.model_validate(found)


def _answer(part: FieldInfo) -> Any:
    from pydantic import TypeAdapter, ValidationError

    kind: Any = Annotated[part.annotation, *part.metadata] if part.metadata else part.annotation
    adapter = TypeAdapter(kind)
    several = get_origin(part.annotation) is list
    default = None if part.is_required() else part.get_default()
    shown = "; ".join(map(str, default)) if several and default else default
    label = f"{part.description}{' (several: a; b)' if several else ''}"
    while True:
        typed = typer.prompt(label, default=shown, err=True)
        try:
            return adapter.validate_python(_read(str(typed), part.annotation))
        except ValidationError as error:
            stderr().print(f"[red]{escape(error.errors()[0]['msg'])}[/]")


def _read(typed: str, kind: Any) -> object:
    """Text as the number or list it is to become; text that is none stays text."""
    if get_origin(kind) is list:
        return [_read(part.strip(), get_args(kind)[0]) for part in typed.split(";") if part.strip()]
    for number in (int, float):
        if number in (kind, *get_args(kind)):
            try:
                return number(typed)
            except ValueError:
                return typed
    return typed
