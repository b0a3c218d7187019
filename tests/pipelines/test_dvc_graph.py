"""dvc.yaml says what the stages really read: a missing dependency is a stale verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import grimp
import pytest
import yaml

from pipelines import repro
from pipelines.stages import manifest

ROOT = Path(__file__).resolve().parents[2]
STAGES: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
PARAMS: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())
ORDER = [
    *("sources", "environment", "target", "draft", "prompts", "validate", "manifest"),
    *("measure", "audit", "decide", "report", "evidence", "track"),
]

HELPERS = {
    # how a stage starts, talks and hashes: no output has other content because of them
    *("pipelines.console", "pipelines.digests", "pipelines.settings", "pipelines.stages.command"),
    # refuses parameters, but hands on those it lets through as they stand
    *("pipelines.parameters", "pipelines.planted"),
    *("pipelines.quality", "pipelines.quality.settings"),
    *("specdecode", "specdecode.durable", "specdecode.errors", "specdecode.models.fingerprint"),
    # names of files and kinds of drafts, shared by stages that depend on what these write
    *("pipelines.stages.draft", "pipelines.stages.sources", "specdecode.models.source"),
}


def deps(stage: str) -> set[str]:
    return {
        str(dep).replace("${prompts.path}", PARAMS["prompts"]["path"])
        for dep in STAGES[stage]["deps"]
    }


def params(stage: str) -> set[str]:
    return {entry for entry in STAGES[stage].get("params", ()) if isinstance(entry, str)}


def covered(name: str, listed: set[str]) -> bool:
    return any(name == entry or name.startswith(entry + "/") for entry in listed)


def test_the_stages_are_those_of_the_design() -> None:
    assert set(STAGES) == set(ORDER)


def test_every_stage_comes_after_what_it_reads() -> None:
    order = repro.stages_in_order(ROOT)

    for before, after in (
        ("sources", "target"),
        ("target", "draft"),
        ("prompts", "validate"),
        ("validate", "manifest"),
        ("environment", "manifest"),
        ("manifest", "measure"),
        ("measure", "audit"),
        ("audit", "decide"),
        ("decide", "report"),
        ("report", "track"),
        ("decide", "evidence"),
    ):
        assert order.index(before) < order.index(after)


@pytest.mark.parametrize("stage", ORDER)
def test_a_stage_runs_its_own_module_and_depends_on_it(stage: str) -> None:
    assert STAGES[stage]["cmd"] == f"python -m pipelines.stages.{stage}"
    assert f"pipelines/stages/{stage}.py" in deps(stage)


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    graph = grimp.build_graph("specdecode", "pipelines", cache_dir=None)
    # The root package only forwards names on first use; stages that use one name the real home.
    for imported in graph.find_modules_directly_imported_by("specdecode"):
        graph.remove_import(importer="specdecode", imported=imported)
    return graph


@pytest.mark.parametrize("stage", ORDER)
def test_a_stage_depends_on_all_code_it_imports(stage: str, imports: grimp.ImportGraph) -> None:
    used = imports.find_upstream_modules(f"pipelines.stages.{stage}") - HELPERS
    files = {name.replace(".", "/") for name in used}

    missing = {
        name for name in files if not covered(name, deps(stage)) and f"{name}.py" not in deps(stage)
    }

    assert not missing


@pytest.mark.parametrize("stage", ORDER)
def test_a_stage_depends_on_the_parameters_it_reads(stage: str) -> None:
    text = (ROOT / f"pipelines/stages/{stage}.py").read_text()
    read = set(re.findall(r'(?:params|parameters\(\))\["(\w+)"\]', text))
    listed = {name.split(".")[0] for name in params(stage)}

    assert read <= listed


def test_named_parameters_exist() -> None:
    for stage in STAGES:
        for name in params(stage):
            section: Any = PARAMS
            for part in name.split("."):
                assert part in section, f"{stage}: {name}"
                section = section[part]


def test_everything_in_the_manifest_is_a_dependency_of_its_stage() -> None:
    entered = {f"specdecode/{folder}" for folder in manifest.LIBRARY}
    entered |= {f"pipelines/stages/{stage}.py" for stage in manifest.STAGES}
    entered |= set(manifest.FILES.values()) | {"pipelines/quality", PARAMS["prompts"]["path"]}

    assert {name for name in entered if not covered(name, deps("manifest"))} == set()


def test_every_parameter_enters_the_manifest() -> None:
    assert params("manifest") == set(PARAMS) - {"profiles"}


def test_code_that_makes_or_judges_evidence_enters_the_manifest() -> None:
    folders = {p.name for p in (ROOT / "specdecode").iterdir() if (p / "__init__.py").exists()}

    neither_measures_nor_judges = {"cli", "distil", "explaining", "serving"}
    assert folders - set(manifest.LIBRARY) == neither_measures_nor_judges


def test_timings_and_run_ids_are_never_restored_from_the_run_cache() -> None:
    for stage, output in (("measure", "data/rows.parquet"), ("track", "reports/tracking.json")):
        assert {output: {"persist": True}} in STAGES[stage]["outs"]


def test_small_results_are_in_git_and_large_ones_are_not() -> None:
    uncached = {
        name
        for stage in STAGES.values()
        for kind in ("outs", "metrics")
        for entry in stage.get(kind, ())
        if isinstance(entry, dict)
        for name, options in entry.items()
        if options.get("cache") is False
    }

    assert uncached == {"reports/manifest.json", "reports/verdict.json", "reports/metrics.json"}
