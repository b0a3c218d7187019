"""What the numbers come from: inputs with hashes, plan, parameters, machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Section, Table

_ABSENT = "not recorded"


def inputs_section(inputs: ReportInputs) -> Section:
    """Every input with its SHA-256."""
    if inputs.manifest is None:
        return Section("inputs", "Inputs", f"Manifest: {_ABSENT}. This run cannot be reproduced.")
    rows = [[name, str(digest)] for name, digest in sorted(inputs.manifest["entries"].items())]
    tables = [Table("SHA-256 of every input", ("input", "sha256"), rows)]
    if inputs.draft is not None:
        tables.append(_flat_table("Draft", inputs.draft))
    return Section(
        "inputs",
        "Inputs",
        f"{inputs.metrics['rows']:,} rows from {inputs.metrics['prompts']:,} prompts. "
        f"Manifest {inputs.manifest.get('manifest_sha256', _ABSENT)}.",
        (),
        tables,
    )


def plan_section(inputs: ReportInputs) -> Section:
    """The plan and the parameters of the run."""
    tables = []
    if inputs.plan is not None:
        tables.append(_flat_table("Plan", inputs.plan))
    if inputs.params is not None:
        tables.append(_flat_table("Parameters", inputs.params))
    digest = inputs.verdict.get("plan_sha256") or _ABSENT
    return Section(
        "plan",
        "Plan and parameters",
        f"What had to be shown. {_sealed(inputs)} Plan SHA-256 {digest}.",
        (),
        tables,
    )


def _sealed(inputs: ReportInputs) -> str:
    seal = ((inputs.manifest or {}).get("entries") or {}).get("plan.seal")
    if seal is None:
        return (
            "The plan is hashed, not sealed: its history in Git says when which threshold was "
            "written."
        )
    return f"The plan was sealed before these rows were measured, seal SHA-256 {seal}."


def environment_section(inputs: ReportInputs) -> Section:
    """The machine and the library versions."""
    if inputs.environment is None:
        return Section("environment", "Environment", f"Environment: {_ABSENT}.")
    table = _flat_table("Machine and libraries", inputs.environment)
    return Section("environment", "Environment", "", (), [table])


def _flat_table(caption: str, document: Json) -> Table:
    rows = [[path, text] for path, text in flatten(document)]
    return Table(caption, ("field", "value"), rows)


def flatten(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Leaves of a document as (dotted path, text); a list of plain values stays on one line."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flatten(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for index, inner in enumerate(value):
            label = inner.get("name") if isinstance(inner, Mapping) else None
            yield from flatten(inner, f"{path}[{label if label is not None else index}]")
    else:
        yield path, _text(value)


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)
