"""`specdecode plan power`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import Progress

from specdecode.cli.console import JsonFlag, emit_json, stderr, stdout
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode.governance.plan_schema import Plan
    from specdecode.governance.power import Simulation


def power_command(  # noqa: PLR0917 - typer passes them by name
    file: Annotated[Path, typer.Argument(help="The plan (YAML).")],
    runs: Annotated[int, typer.Option(min=1, help="Simulated runs of each scenario.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")] = 0,
    effects: Annotated[
        Path | None,
        typer.Option(
            help="Scenarios (YAML): {name: {field of power.effects: other value}}. None: the plan's"
        ),
    ] = None,
    stage: Annotated[
        str | None, typer.Option(help="Stage to simulate; none takes the plan's own.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw the chances into this file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Simulate a plan's decision and print the chance of each answer.

    Rows are made up under the supposed effects and judged by the plan's own rules. Intervals are
    Clopper-Pearson, 95 %.

    Example: specdecode plan power plans/default.yaml --runs 200 --svg power.svg
    """
    from specdecode.governance import load_plan
    from specdecode.governance.power import simulate
    from specdecode.governance.power_picture import bars
    from specdecode.governance.power_picture import svg as drawn

    plan = load_plan(file)
    scenarios = {"planned": plan} if effects is None else _scenarios(plan, effects)
    found: dict[str, Simulation] = {}
    console = stderr()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("simulated runs", total=runs * len(scenarios))
        for name, supposed in scenarios.items():
            found[name] = simulate(
                supposed, stage=stage, runs=runs, seed=seed, progress=lambda: progress.advance(task)
            )
    wanted = plan.power.wanted
    if svg is not None:
        _write(svg, drawn(found, wanted))
    if as_json:
        emit_json(
            {
                "file": str(file),
                "wanted": wanted,
                "scenarios": {name: result.to_json() for name, result in found.items()},
            }
        )
        return
    for name, result in found.items():
        out = stdout()
        out.print(f"[bold]{escape(name)}[/]: {result.runs} runs of stage {result.stage}, "
                  f"expected n {result.prompts:g} prompts, seed {result.seed}")  # fmt: skip
        out.print(escape(bars(result, wanted)))
        for rule, count in list(result.held_by.items())[:5]:
            out.print(f"  held by {escape(rule)} in {count} of {result.runs} runs")
        out.print(f"  wanted: GO in {wanted:.0%} of runs (┃)\n")


def _scenarios(plan: Plan, path: Path) -> dict[str, Plan]:
    """The plan under each scenario of the file."""
    from specdecode.governance.power import suppose
    from specdecode.governance.yaml_file import read_yaml

    document = read_yaml(path, "file of effects")
    if not isinstance(document, dict) or not document:
        raise ConfigError(f"{path}: expected {{scenario: {{field: value}}}}")
    scenarios = {}
    for name, changes in document.items():
        if not isinstance(changes, dict):
            raise ConfigError(f"{path}: {name}: expected {{field of power.effects: value}}")
        scenarios[str(name)] = suppose(plan, changes, f"{path}: {name}")
    return scenarios


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror or error})") from error
