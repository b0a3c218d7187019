"""The measured table inside docs/engines-compared.md; what surrounds it is written by people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.compare.arms import PLAIN, SHOWN, engine_of
from specdecode.durable import written_whole
from specdecode.errors import ConfigError

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"

Json = dict[str, Any]


def write_page(path: Path, report: Json) -> None:
    """Put the table in its place.

    Raises:
        ConfigError: the page has no place for it.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ConfigError(f"{path}: put the lines {BEGIN} and {END} where the table belongs")
    with written_whole(path) as file:
        file.write(f"{before}{BEGIN}\n{tables(report)}\n{END}{after}".encode())


def tables(report: Json) -> str:
    """Both tables, with what they were made on."""
    machine = report["machine"]["hardware"]
    spec = report["spec"]
    said = (
        f"{machine['cpu']}, {machine['cores']} cores; {report['ended_at'][:10]}; target "
        f"{report['target']}; {spec['rounds']} rounds; replies of {spec['max_tokens']} tokens, "
        f"greedy; {100 * spec['level']:.0f} % intervals over rounds. "
        f"Versions: {_versions(report)}."
    )
    failed = [f"**{each['arm']}** failed: {each['reason']}" for each in report["failures"]]
    return "\n\n".join([said, _arms(report), _beside_ours(report), *failed])


def _versions(report: Json) -> str:
    found = {
        engine: (report["engines"].get(arm) or {}).get("version") or "unknown"
        for engine, arm in PLAIN.items()
    }
    return ", ".join(f"{engine} {version}" for engine, version in found.items())


def _arms(report: Json) -> str:
    head = (
        "| engine | drafts with | concurrency | tokens/s | TPOT p50, ms | TPOT p95, ms "
        "| tokens a step | throughput over its own plain decoding |"
    )
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    for point in report["points"]:
        tpot = point["tpot_s"]
        cells = [
            engine_of(point["arm"]),
            SHOWN[point["arm"]],
            str(point["concurrency"]),
            _number(point["output_tokens_per_s"], 1, 1),
            _number(tpot.get("p50"), 1000, 1),
            _number(tpot.get("p95"), 1000, 1),
            _number(point["mean_acceptance_length"]["pooled"], 1, 2),
            ratio(point.get("throughput_over_plain")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _beside_ours(report: Json) -> str:
    head = "| plain decoding of | concurrency | throughput over ours | TPOT over ours |"
    lines = [head, "|---|---|---|---|"]
    for each in report["plain_over_ours"]:
        cells = [each["engine"], str(each["concurrency"])]
        cells += [ratio(each["throughput"]), ratio(each["tpot"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ratio(found: Json | None) -> str:
    """A ratio with its interval."""
    if found is None:
        return "–"
    if found["estimate"] is None:
        return str(found["why"])
    if found["low"] is None:
        return f"{found['estimate']:.2f} ({found['why']})"
    return f"{found['estimate']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def _number(value: float | None, scale: float, digits: int) -> str:
    return "–" if value is None else f"{value * scale:.{digits}f}"
