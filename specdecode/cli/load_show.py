"""The summary of a load run for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from specdecode.cli.console import number

_STYLE = {"complete": "bold green", "partial": "bold yellow", "failed": "bold red"}
_QUANTILES = ("p50", "p90", "p95", "p99")
_ROWS = (
    ("TTFT", "latency", "ttft_s", 1e3, "ms"),
    ("TPOT", "latency", "tpot_s", 1e3, "ms"),
    ("E2E", "latency", "e2e_s", 1e3, "ms"),
    ("ITL (per token)", "gaps", "itl_s", 1e3, "ms"),
    ("chunk gap (not per token)", "gaps", "chunk_gap_s", 1e3, "ms"),
    ("client lag", "client", "lag_s", 1e3, "ms"),
    ("output tokens", "latency", "output_tokens", 1.0, ""),
    ("acceptance length", "latency", "mean_acceptance_length", 1.0, ""),
)


def show_summary(summary: Mapping[str, Any], folder: Path, console: Console) -> None:
    """Print numbers first and the verdict last, where a reader of a long log looks."""
    console.print(_distributions(summary))
    console.print()
    for name, text in facts(summary):
        console.print(Text(f"{name}: {text}"))
    for who in ("client", "server"):
        found = summary["saturation"][who]
        reasons = "; ".join(found["reasons"])
        console.print(Text(f"{who}: {found['state']}" + (f" ({reasons})" if reasons else "")))
    if summary["latency_valid"] is False:
        console.print("[bold red]These latencies are not those of the server under this load.[/]")
    for text in engine_remarks(summary["engine"]):
        console.print(Text(text))
    for kind, found in summary["errors"].items():
        for example in found["examples"]:
            console.print(Text(f"{found['n']} x {kind}, such as: {example}"))
    if is_lossy(summary["engine"]):
        console.print(
            "[bold red]These are numbers of a lossy server: no evidence for a release.[/]"
        )
    console.print(Text(f"rows and summary: {folder}"))
    status = summary["verdict"]["status"]
    console.print(f"[{_STYLE[status]}]{escape(summary['verdict']['line'])}[/]")


def facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Numbers that need no table: name and text."""
    flow, cost, flying = summary["throughput"], summary["cost"], summary["concurrency"]
    found = [
        ("loop", f"{summary['loop']}, latency counted from {summary['latency_counted_from']}"),
        (
            "throughput",
            f"{number(flow['ok_per_s'], 2)} requests/s, "
            f"{number(flow['output_tokens_per_s'], 1)} output tokens/s "
            f"in {summary['duration_s']:.1f} s",
        ),
        ("in flight", f"mean {number(flying['mean'], 2)}, peak {flying['peak']}"),
        ("tokens per chunk", number(summary["tokens"]["tokens_per_chunk"], 2)),
    ]
    goodput = summary["goodput"]
    if goodput is not None:
        limits = ", ".join(f"{name} ≤ {limit:g} s" for name, limit in goodput["slo"].items())
        share = (
            "not measured"
            if goodput["share"] is None
            else f"{goodput['share']:.1%} ({goodput['share_low']:.1%} .. "
            f"{goodput['share_high']:.1%})"
        )
        unjudged = f", {goodput['unjudged']} not judged" if goodput["unjudged"] else ""
        found.append(
            (f"goodput ({limits})", f"{goodput['good']} of {goodput['n']}{unjudged}, {share}")
        )
    found.append(("cost", _cost(cost)))
    return [*found, *_machine(summary)]


def _cost(cost: Mapping[str, Any]) -> str:
    if cost["total"] is None:
        return "not measured (state a price with --price-per-hour)"
    money = cost["currency"]
    return (
        f"{cost['total']:.4g} {money} in all, "
        f"{_short(cost['per_million_useful_tokens'], money)} per million useful tokens, "
        f"{_short(cost['per_request_within_slo'], money)} per request within the objectives"
    )


def _energy(summary: Mapping[str, Any]) -> str:
    found = summary["cost"]["energy"]
    if isinstance(found, str):
        return found
    return (
        f"{found['joules']:.1f} J of {summary['energy']['scope']}, "
        f"{_short(found['joules_per_useful_token'], 'J')} per useful token, "
        f"{_short(found['joules_per_request_within_slo'], 'J')} per request within the objectives"
    )


def _short(value: float | None, unit: str) -> str:
    """Four digits, however small: a price of a request may be a millionth."""
    return "not measured" if value is None else f"{value:.4g} {unit}"


def engine_remarks(engine: Mapping[str, Any] | None) -> list[str]:
    """What the server says of itself, one remark a line."""
    if engine is None:
        return []
    found = [f"engine: {engine['engine']} {engine['version'] or 'of unknown version'}"]
    rule = engine["acceptance_rule"]
    why = "; ".join(rule["findings"])
    if rule["seen"] == "lossy":
        found.append(f"its output is NOT its target's: {why}")
    elif rule["seen"] == "hidden":
        found.append(f"whether its acceptance is exact is not shown: {why}")
    found.extend(f"could not be asked: {why}" for why in engine["could_not_be_asked"])
    return found + [f"requests and server: {why}" for why in _differences(engine)]


def is_lossy(engine: Mapping[str, Any] | None) -> bool:
    """Whether the server was seen to emit what its target would not."""
    return engine is not None and engine["acceptance_rule"]["seen"] == "lossy"


def _differences(engine: Mapping[str, Any]) -> list[str]:
    """What differs; that something could not be compared is in the summary alone."""
    found = engine["requests_and_counters_differ"] or []
    return [why for why in found if "cannot be compared" not in why]


def _machine(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    used = summary["resources"]
    processor = [
        f"{who} {_mean_and_max(used.get(name), 1.0, unit)}"
        for who, name, unit in (
            ("machine", "machine_cpu_percent", " %"),
            ("server", "server_cpu_percent", " % of a core"),
            ("client", "client_cpu_percent", " % of a core"),
        )
    ]
    gpus = used["gpus"]
    return [
        ("use of", used["scope"]),
        ("processor", "; ".join(processor)),
        ("server memory", _mean_and_max(used.get("server_rss_bytes"), 2**-20, " MiB")),
        *([("GPU", gpus)] if isinstance(gpus, str) else map(_gpu, range(len(gpus)), gpus)),
        ("energy", _energy(summary)),
    ]


def _gpu(place: int, gpu: Mapping[str, Any]) -> tuple[str, str]:
    used = _mean_and_max(gpu["utilisation_percent"], 1.0, " %")
    return f"GPU {place}", f"{used}, memory {_mean_and_max(gpu['memory_bytes'], 2**-20, ' MiB')}"


def _mean_and_max(found: Any, scale: float, unit: str) -> str:
    if not isinstance(found, Mapping):
        return "not measured"
    return f"mean {scale * found['mean']:.0f}, max {scale * found['max']:.0f}{unit}"


def _distributions(summary: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("", *_QUANTILES):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_column("n", justify="right")
    for label, section, name, scale, unit in _ROWS:
        found = summary[section][name]
        cells = [
            number(None if found[q] is None else scale * found[q], 1 if unit else 2)
            for q in _QUANTILES
        ]
        table.add_row(f"{label}, {unit}" if unit else label, *cells, str(found["n"]))
    return table
