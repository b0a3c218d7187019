"""The result of a sweep for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specdecode.cli.console import number

if TYPE_CHECKING:
    from specdecode.workload.sweep.run import SweepResult

_STYLE = {"complete": "bold green", "partial": "bold yellow", "interrupted": "bold yellow"}


def show_result(result: SweepResult, console: Console) -> None:
    """Print numbers first and the status last, where a reader of a long log looks."""
    document = result.document
    console.print(_table(document["points"], document["manifest"]["spec"]))
    console.print()
    for found in document["crossovers"]:
        console.print(Text(crossover_line(found)))
    for found in document["recommendations"]:
        console.print()
        for line in recommendation_lines(found, result.folder, document["manifest"]["arms"]):
            console.print(Text(line))
    console.print()
    for failure in document["failures"]:
        if failure["healed"]:
            continue
        console.print(Text(f"{failure['arm']} failed: {failure['reason']}", style="red"))
    console.print(Text("written: " + ", ".join(str(path) for path in result.files)))
    console.print(Text(status_line(document), style=_STYLE[result.status]))


def _table(points: Sequence[Mapping[str, Any]], spec: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("arm")
    columns = ["clients", "rounds", "tokens/s", "/ plain", "TPOT ms", "/ plain", "TTFT p95 ms"]
    columns += ["acceptance length", "accepted"]
    if spec["price_per_hour"] is not None:
        columns.append(f"{spec['currency']} / 1M tokens")
    for name in columns:
        table.add_column(name, justify="right")
    for point in points:
        left_out = f" (-{point['rounds_left_out']})" if point["rounds_left_out"] else ""
        rate = point["acceptance_rate"]["pooled"]
        cells = [
            str(point["concurrency"]),
            f"{point['rounds']}{left_out}",
            number(point["output_tokens_per_s"], 1),
            ratio_text(point.get("throughput_over_plain")),
            number(_ms(point["tpot_s"]["pooled"]), 2),
            ratio_text(point.get("tpot_over_plain")),
            number(_ms(point["ttft_s"]["p95"]), 1),
            _dash(point["mean_acceptance_length"]["pooled"], "{:.2f}"),
            _dash(rate, "{:.0%}"),
        ]
        if spec["price_per_hour"] is not None:
            cells.append(number(point["cost_per_million_useful_tokens"], 4))
        table.add_row(point["arm"], *cells)
    return table


def ratio_text(ratio: Mapping[str, Any] | None) -> str:
    """Estimate and interval, or why there is none."""
    if ratio is None:
        return ""
    if ratio["estimate"] is None:
        return "not measured"
    if ratio["low"] is None:
        return f"{ratio['estimate']:.3f} ({ratio['why']})"
    return f"{ratio['estimate']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"


def crossover_line(found: Mapping[str, Any]) -> str:
    """Where one arm stops to pay."""
    parts = []
    if found["pays_up_to"] is not None:
        parts.append(f"pays up to concurrency {found['pays_up_to']}")
    if found["undecided"]:
        parts.append(f"undecided at {_listed(found['undecided'])}")
    if found["not_measured"]:
        parts.append(f"not measured at {_listed(found['not_measured'])}")
    if found["does_not_pay_from"] is not None:
        parts.append(f"does not pay from {found['does_not_pay_from']} on")
    if not found["monotone"]:
        states = ", ".join(f"{load}: {state}" for load, state in found["states"].items())
        parts.append(f"not monotone ({states})")
    estimate = found["estimate"]
    if estimate is not None:
        ends = (
            "" if estimate["low"] is None else f" [{estimate['low']:.1f}, {estimate['high']:.1f}]"
        )
        parts.append(f"estimated crossover {estimate['concurrency']:.1f}{ends}, interpolated")
    return f"{found['arm']}: {'; '.join(parts)}"


def recommendation_lines(
    found: Mapping[str, Any], folder: Path, arms: Sequence[Mapping[str, Any]]
) -> list[str]:
    """What to set, and how, with the models that were measured."""
    chosen = ", ".join(
        f"{each['num_speculative_tokens']} at {each['concurrency']}"
        for each in found["by_measured_load"]
    )
    rule = "" if found["rule"] is None else f", verification {found['rule']}"
    lines = [f"recommended draft length by concurrency: {chosen}{rule}"]
    lines.append(
        f"a length that is no faster than plain decoding gets in at one load with probability "
        f"{found['error_at_most']:.3g} at most; above {found['measured_up_to']} nothing was "
        "measured, and nothing is drafted"
    )
    files = found.get("files", {})
    if files.get("lengths"):
        options = _models(arms, found["baseline"])
        if found["rule"] is not None:
            options += ["--verification", found["rule"]]
        options += ["--draft-lengths", str(folder / files["lengths"])]
        lines.append(f"for our server: specdecode serve {shlex.join(options)}")
    if files.get("vllm"):
        lines.append(f"for vLLM: merge {folder / files['vllm']} into --speculative-config")
    elif files.get("lengths"):
        lines.append("for vLLM: no speculative configuration")
    return lines


def _models(arms: Sequence[Mapping[str, Any]], baseline: str) -> list[str]:
    """Target and draft of the arms over a plain one, as options; none if it is another server."""
    for arm in arms:
        if arm["baseline"] == baseline and arm["engine"] == "specdecode":
            argv = arm["server"]["argv"] if isinstance(arm["server"], Mapping) else []
            named = [name for name in ("--target", "--draft") if name in argv]
            return [word for name in named for word in (name, argv[argv.index(name) + 1])]
    return []


def status_line(document: Mapping[str, Any]) -> str:
    """How the sweep ended, with counts that add up."""
    spec, arms = document["manifest"]["spec"], document["manifest"]["arms"]
    total = len(arms) * spec["rounds"] * len(spec["concurrency"])
    cells = document["cells"]
    whole = sum(cell["whole"] for cell in cells)
    text = f"{document['status']}: {whole} of {total} cells whole"
    if len(cells) > whole:
        text += f", {len(cells) - whole} with errors"
    return text + (f", {total - len(cells)} not measured" if total > len(cells) else "")


def _listed(loads: Sequence[int]) -> str:
    return ", ".join(map(str, loads))


def _dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds
