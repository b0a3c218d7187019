"""`specdecode plan power`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import Progress

from specdecode.cli.console import JsonFlag, emit_json, stderr, stdout
from specdecode.cli.outputs import refuse_unwritable, write_output
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode.governance.plan_schema import Plan
    from specdecode.governance.power_ladder import Ladder
    from specdecode.governance.power_outcome import Simulation


def power_command(  # noqa: PLR0917 - typer passes them by name
    file: Annotated[Path, typer.Argument(help="The plan (YAML).")],
    runs: Annotated[int, typer.Option(min=1, help="Simulated runs of each stage.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")] = 0,
    effects: Annotated[
        Path | None,
        typer.Option(
            help="Scenarios (YAML): {name: {field of power.effects: other value}}. None: the plan's"
        ),
    ] = None,
    no_effect: Annotated[
        bool, typer.Option("--no-effect", help="Also suppose that every arm is like the baseline.")
    ] = False,
    harm: Annotated[
        list[str] | None,
        typer.Option(
            help="Also suppose that this metric misses its margin by what it keeps now; repeat for "
            "more."
        ),
    ] = None,
    stage: Annotated[
        str | None, typer.Option(help="The only stage to simulate; none takes all of them.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw the chances into this file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Simulate a plan's decisions, stage by stage, and print the chance of each answer.

    Requests are made up under the supposed effects and judged as the plan says. Intervals are
    Clopper-Pearson, 95 %.

    Example: specdecode plan power plans/default.yaml --runs 200 --svg power.svg
    """
    from specdecode.governance import load_plan
    from specdecode.governance.power import simulate
    from specdecode.governance.power_ladder import ladder
    from specdecode.governance.power_picture import ladder_svg

    plan = load_plan(file)
    if svg is not None:
        refuse_unwritable(svg)
    plan.at(stage or plan.stage)  # a stage that is not there is refused before the wait
    scenarios = {"planned": plan} if effects is None else _scenarios(plan, effects)
    beside = _beside(plan, no_effect, harm or [])
    scenarios |= beside
    names = [stage] if stage else [entry.name for entry in plan.stages]
    found: dict[str, Ladder] = {}
    console = stderr()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("simulated runs", total=runs * len(scenarios) * len(names))
        for title, supposed in scenarios.items():
            found[title] = ladder(
                {
                    name: simulate(
                        supposed,
                        stage=name,
                        runs=runs,
                        seed=seed,
                        progress=lambda: progress.advance(task),
                    )
                    for name in names
                }
            )
    wanted = plan.power.wanted
    if svg is not None:
        write_output(svg, ladder_svg(found, wanted, beside).encode())
    if as_json:
        emit_json(
            {
                "file": str(file),
                "wanted": wanted,
                "scenarios": {name: result.to_json() for name, result in found.items()},
            }
        )
        return
    for title, result in found.items():
        _show(title, result, None if title in beside else wanted)


def _show(title: str, result: Ladder, wanted: float | None) -> None:
    from specdecode.governance.power_picture import bars

    out = stdout()
    for simulation in result.stages.values():
        out.print(f"[bold]{escape(title)}[/]: {_told(simulation)}")
        out.print(escape(bars(simulation.chances, wanted)))
        for rule, count in list(simulation.held_by.items())[:5]:
            out.print(f"  held by {escape(rule)} in {count} of {simulation.runs} runs")
        if wanted is not None:
            out.print(f"  wanted: GO in {wanted:.0%} of runs (┃)")
        out.print()
    if result.walks is not None and len(result.reached) > 1:
        out.print(f"[bold]{escape(title)}[/]: {', '.join(result.reached)} in turn")
        out.print(escape(bars(result.walks, None)))
        out.print()


def _told(simulation: Simulation) -> str:
    text = (
        f"{simulation.runs} runs of stage {simulation.stage}, expected n "
        f"{simulation.expected_n:.0f} {simulation.unit}s"
    )
    if simulation.most is not None:
        half, most = (simulation.n_for(share) for share in (0.5, 0.8))
        text += f" of {simulation.most}"
        if half is None:
            text += " (fewer than half decided before the end)"
        else:
            text += f" (half decided by {half}, four in five {f'by {most}' if most else 'never'})"
    return f"{text}, seed {simulation.seed}"


def _beside(plan: Plan, nothing: bool, harmed: list[str]) -> dict[str, Plan]:
    """The plan under the command's own scenarios."""
    from specdecode.governance.power import suppose
    from specdecode.governance.power_scenarios import harm, no_effect

    found = {"no effect": no_effect(plan)} if nothing else {}
    found |= {f"harm to {metric}": harm(plan, metric) for metric in harmed}
    return {title: suppose(plan, changes, title) for title, changes in found.items()}


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
