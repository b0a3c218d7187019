"""Runs the flips, one scratch copy each, and keeps the table up to date after every one.

A copy is evaluated by `dvc repro decide`, so a flip that is done costs a look at its inputs and no
measurement, and one that was cut off goes on from the rows it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from pipelines import repro
from pipelines.console import say
from pipelines.digests import sha256_json, sha256_tree
from pipelines.flip.catalogue import FLIPS, UNCHANGED, AlreadySoError, Flip
from pipelines.flip.papers import PLAN, Papers, papers_of
from pipelines.flip.population import SETTINGS
from pipelines.flip.result import SCHEMA, Flips, Row, deciding_of, headline_of, with_turns
from pipelines.flip.show import markdown
from pipelines.sealed import ANCHOR, SEAL
from pipelines.stages.command import read_json, write_json
from pipelines.stages.manifest import LIBRARY, STAGES
from pipelines.workspace import mirror, parameters_of, workspace_of, yaml_text
from specdecode.durable import written_whole
from specdecode.errors import ConfigError
from specdecode.governance import load_plan, plan_sha256
from specdecode.governance.verdict import Status, Verdict

LAST_STAGE = "decide"
RESULT = Path("reports/flips.json")
PAGE = Path("reports/flips.md")
STEP = "python -m pipelines.flip.population " + SETTINGS
OURS = ("catalogue.py", "notes.py", "papers.py", "population.py")

Evaluate = Callable[[Path], int]


class InterruptedRunError(Exception):
    """The person pressed Ctrl-C while a flip was running."""


def run_flips(
    root: Path, profile: str, flips: Sequence[Flip], evaluate: Evaluate | None = None
) -> Flips:
    """Runs `flips` and writes reports/flips.json and flips.md beside the results of `profile`.

    Rows of other flips that were made from the same code, plan, parameters and prompts stay in the
    table; others are dropped.

    Args:
        root: the repository.
        profile: a key of `profiles` in params.yaml.
        flips: in the order of the table; the unchanged one is the first.
        evaluate: evaluates a scratch copy and returns an exit status; `dvc repro` by default.

    Raises:
        ConfigError: parameters or plan are not what they may be, or the profile is unknown.
        InterruptedRunError: Ctrl-C; what was done so far is in the table.
    """
    home = workspace_of(root, profile)
    base, plan = base_sha256(root, profile), load_plan(root / PLAN)
    done = {row.name: row for row in _kept(home / RESULT, base)}
    head = {"profile": profile, "plan_name": plan.name, "plan_sha256": plan_sha256(plan)}
    for flip in flips:  # the unchanged one comes first, so that there is a table from then on
        say(f"\nFlip {flip.name}: {flip.change}")
        done[flip.name] = _row(root, profile, flip, evaluate or reproducing(root))
        table = Flips(schema=SCHEMA, base_sha256=base, rows=_in_order(done), **head)
        write_json(home / RESULT, table.to_json())
        with written_whole(home / PAGE) as file:
            file.write(markdown(table).encode())
    return table


def _in_order(done: dict[str, Row]) -> list[Row]:
    return with_turns(done[name] for name in FLIPS if name in done)


def copy_of(root: Path, profile: str, flip: Flip) -> Path:
    """Returns where a flip runs."""
    return root / ".workspaces" / "flips" / profile / flip.name


def prepare(root: Path, profile: str, flip: Flip, papers: Papers) -> Path:
    """Brings the scratch copy of a flip up to date and returns it.

    It has no seal: nobody vouched for a plan with an assumption changed.
    """
    copy = copy_of(root, profile, flip)
    edited = {"params.yaml": yaml_text(papers.params), PLAN: yaml_text(papers.plan)}
    without = {str(SEAL), str(ANCHOR), str(RESULT), str(PAGE)}
    if papers.population is None:
        without.add(SETTINGS)
    else:
        edited[SETTINGS] = json.dumps(papers.population, indent=2) + "\n"
        edited["dvc.yaml"] = _with_step((root / "dvc.yaml").read_text(encoding="utf-8"))
    mirror(root, copy, edited, without=without)
    return copy


def base_sha256(root: Path, profile: str) -> str:
    """Returns one digest over what all flips have in common: code, plan, parameters, prompts."""
    params = parameters_of(root, profile)
    trees = [f"specdecode/{name}" for name in LIBRARY]
    files = [PLAN, "dvc.yaml", "requirements.lock", "specdecode/durable.py"]
    files += [f"pipelines/stages/{name}.py" for name in STAGES]
    files += [f"pipelines/flip/{name}" for name in OURS]
    found = {name: sha256_tree(root / name, (".py",)) for name in trees}
    found |= {name: sha256_tree(root / name) for name in files}
    found["prompts"] = sha256_tree(root / params["prompts"]["path"], (".jsonl",))
    return sha256_json({"params": params, "files": found})


def reproducing(root: Path, on_line: Callable[[str], None] | None = None) -> Evaluate:
    """Returns what evaluates a scratch copy by `dvc repro`, up to the verdict.

    Args:
        root: the repository, whose MLflow store takes the results.
        on_line: takes each line of output; null lets it go where ours goes.
    """

    def evaluate(copy: Path) -> int:
        with repro.alone_in(copy):
            return repro.run(copy, tracked_in=root, stages=(LAST_STAGE,), on_line=on_line)

    return evaluate


def _row(root: Path, profile: str, flip: Flip, evaluate: Evaluate) -> Row:
    known: dict[str, Any] = {
        "name": flip.name,
        "assumption": flip.assumption,
        "change": flip.change,
        "changed": [],
        **dict.fromkeys(("status", "turned", "note", "headline", "deciding")),
        **dict.fromkeys(("prompts", "manifest_sha256", "folder")),
        "reasons": [],
    }
    try:
        papers = papers_of(root, profile, flip)
    except AlreadySoError as error:
        say(f"Left out: {error}.")
        return Row(**{**known, "note": f"nothing to flip: {error}"})
    except ConfigError as error:
        if flip.name == UNCHANGED:
            raise
        say(f"Left out: {error}")
        return Row(**{**known, "note": str(error)})
    copy = prepare(root, profile, flip, papers)
    known["changed"] = papers.changed
    known["folder"] = os.fspath(copy.relative_to(root))
    status = evaluate(copy)
    if status == repro.INTERRUPTED:
        raise InterruptedRunError
    if status != 0:
        note = f"the evaluation did not finish (exit status {status}); see {known['folder']}"
        return Row(**{**known, "note": note})
    verdict = Verdict.model_validate(_named(read_json(copy / "reports/verdict.json")))
    plan = load_plan(copy / PLAN)
    return Row(
        **{
            **known,
            "status": Status(verdict.status),
            "headline": headline_of(verdict.rules, plan),
            "deciding": deciding_of(verdict.status, verdict.rules, plan),
            "reasons": verdict.reasons,
            "prompts": verdict.prompts,
            "manifest_sha256": verdict.manifest_sha256,
        }
    )


def _named(document: dict[str, Any]) -> dict[str, Any]:
    found = dict(document)
    found["schema_name"] = found.pop("schema")
    return found


def _with_step(text: str) -> str:
    """Returns dvc.yaml with the flip's own step at the end of the stage `prompts`."""
    document = yaml.safe_load(text)
    stage = document["stages"]["prompts"]
    before = stage["cmd"] if isinstance(stage["cmd"], list) else [stage["cmd"]]
    stage["cmd"] = [*before, STEP]
    stage["deps"] = [*stage["deps"], SETTINGS, "pipelines/flip/notes.py"]
    stage["deps"].append("pipelines/flip/population.py")
    return yaml_text(document)


def _kept(path: Path, base: str) -> list[Row]:
    """Rows of an earlier table, if they were made from what is there now."""
    if not path.is_file():
        return []
    try:
        table = Flips.model_validate(read_json(path))
    except ValueError:
        say(f"{path} is no table of flips as this version writes it; it is written anew.")
        return []
    if table.base_sha256 != base:
        say("Code, plan, parameters or prompts have changed: rows of earlier flips are dropped.")
        return []
    return table.rows
