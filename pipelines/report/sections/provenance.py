"""What the numbers come from: inputs with hashes, plan, parameters, machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Cell, Section, Table, quote
from pipelines.report.words import Words


def inputs_section(inputs: ReportInputs, words: Words) -> Section:
    """Every input with its SHA-256."""
    title, absent = words("inputs.title"), words("not_recorded")
    if inputs.manifest is None:
        return Section("inputs", title, words("inputs.none"))
    rows = [[name, str(digest)] for name, digest in sorted(inputs.manifest["entries"].items())]
    tables = [Table(words("inputs.caption"), (words("inputs.input"), "SHA-256"), rows)]
    if inputs.draft is not None:
        tables.append(_flat_table(words("inputs.draft"), inputs.draft, words))
    lead = words(
        "inputs.lead",
        rows=f"{inputs.metrics['rows']:,}",
        prompts=f"{inputs.metrics['prompts']:,}",
        manifest=inputs.manifest.get("manifest_sha256", absent),
    )
    return Section("inputs", title, lead, (), tables)


def plan_section(inputs: ReportInputs, words: Words) -> Section:
    """The plan and the parameters of the run."""
    tables = []
    if inputs.plan is not None:
        tables.append(_flat_table(words("plan.plan"), inputs.plan, words))
    if inputs.params is not None:
        tables.append(_flat_table(words("plan.params"), inputs.params, words))
    digest = inputs.verdict.get("plan_sha256") or words("not_recorded")
    lead = words("plan.lead", sealed=_sealed(inputs, words), digest=digest)
    return Section("plan", words("plan.title"), lead, (), tables)


def _sealed(inputs: ReportInputs, words: Words) -> str:
    seal = ((inputs.manifest or {}).get("entries") or {}).get("plan.seal")
    return words("plan.hashed") if seal is None else words("plan.sealed", seal=seal)


def environment_section(inputs: ReportInputs, words: Words) -> Section:
    """The machine and the library versions."""
    title = words("environment.title")
    if inputs.environment is None:
        return Section("environment", title, words("environment.none"))
    table = _flat_table(words("environment.caption"), inputs.environment, words)
    return Section("environment", title, "", (), [table])


def _flat_table(caption: str, document: Json, words: Words) -> Table:
    rows: list[list[Cell]] = [[path, quote(words, text)] for path, text in flatten(document)]
    return Table(caption, (words("inputs.field"), words("inputs.value")), rows)


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
