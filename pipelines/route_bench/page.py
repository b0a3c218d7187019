"""What was measured inside docs/router-latency.md; what surrounds it is written by people."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipelines.route_bench.arms import ARMS, DIRECT
from specdecode.durable import written_whole
from specdecode.errors import ConfigError

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
TIMES = {
    ("json", "total"): "whole reply",
    ("stream", "first"): "stream, first bytes",
    ("stream", "total"): "stream, to its end",
}

Json = dict[str, Any]


def write_page(path: Path, report: Json, picture: Path) -> None:
    """Put tables and picture in their place.

    Args:
        path: the page.
        report: what was measured.
        picture: of it, which the page shows; it need not be there yet.

    Raises:
        ConfigError: the page has no place for them.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ConfigError(f"{path}: put the lines {BEGIN} and {END} where the tables belong")
    there = Path(os.path.relpath(picture.absolute(), path.absolute().parent)).as_posix()
    shown = f"![Latency added by the ways through a proxy]({there})"
    with written_whole(path) as file:
        file.write(f"{before}{BEGIN}\n{tables(report)}\n\n{shown}\n{END}{after}".encode())


def tables(report: Json) -> str:
    """What was measured, on what, and what of it had to be met."""
    machine, plan, timing = report["machine"]["hardware"], report["plan"], report["plan"]["timing"]
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    said = (
        f"{machine['cpu']}, {machine['cores']} cores; {report['ended_at'][:10]}; open loop at "
        f"{_rates(plan['rates'])} requests a second, in {plan['rounds']} rounds of blocks of "
        f"{plan['seconds']:g} s; the server answers after {timing['delay_ms']:g} ms, a stream has "
        f"{timing['chunks']} events {timing['gap_ms']:g} ms apart. Milliseconds, with "
        f"{100 * report['level']:.0f} % intervals over rounds. Versions: {versions}."
    )
    parts = [said]
    for rate in sorted(plan["rates"], reverse=True):
        for (kind, time), name in TIMES.items():
            case = {"rate": rate, "kind": kind, "time": time}
            if points := [p for p in report["points"] if case.items() <= p.items()]:
                parts += [f"### {rate:g} requests a second: {name}", _points(points)]
    if report["beside_litellm"]:
        parts += ["### Router minus LiteLLM", _beside(report["beside_litellm"])]
    if report["bars"]:
        parts += ["### What had to be met", _bars(report["bars"])]
    return "\n\n".join(parts)


def _rates(rates: Iterable[float]) -> str:
    return " and ".join(f"{rate:g}" for rate in rates)


def _points(points: Iterable[Json]) -> str:
    head = (
        "| way | replies | errors | median | p99 | added, median | added, p99 | p99 minus p99 "
        "| CPU of the proxy a request (of a core) | requests at the candidate | client late, p99 |"
    )
    lines = [head, "|---|" + "---:|" * 10]
    for point in points:
        gain = point["added_ms"]
        cells = [
            ARMS[point["arm"]].shown,
            str(point["replies"]),
            str(point["errors"]),
            _number(point["median_ms"]),
            _number(point["p99_ms"]),
            *(
                ("–" if point["arm"] == DIRECT or gain is None else interval(gain[name]))
                for name in ("median", "p99", "p99_minus_p99")
            ),
            _cpu(point),
            f"{100 * point['candidate_requests'] / point['replies']:.0f} %",
            _number(point["client_lag_p99_ms"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _beside(found: Iterable[Json]) -> str:
    lines = [
        "| way | requests a second | of | median | p99 minus p99 |",
        "|---|---:|---|---:|---:|",
    ]
    for each in found:
        cells = [ARMS[each["arm"]].shown, f"{each['rate']:g}"]
        cells += [TIMES[(each["kind"], each["time"])]]
        cells += [interval(each["median"]), interval(each["p99_minus_p99"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _bars(bars: Iterable[Json]) -> str:
    lines = ["| way | must | worst of all | met |", "|---|---|---:|---|"]
    for bar in bars:
        met = "yes" if bar["met"] else "**no**"
        lines.append(
            f"| {ARMS[bar['arm']].shown} | {bar['what']} | {_number(bar['high'])} | {met} |"
        )
    return "\n".join(lines)


def interval(found: Json) -> str:
    """An estimate with its interval."""
    if found["estimate"] is None:
        return str(found["why"])
    if found["low"] is None:
        return f"{found['estimate']:.2f} ({found['why']})"
    return f"{found['estimate']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def _cpu(point: Json) -> str:
    if point["cpu_share"] is None:
        return "–"
    return f"{_number(point['cpu_ms_per_request'])} ({100 * point['cpu_share']:.0f} %)"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
