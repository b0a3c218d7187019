"""All that a sweep says, from its cells alone: the same function for a running and a read sweep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdecode.measurement.metrics import METRICS, summarise_metric
from specdecode.workload.sweep.arms import Arm
from specdecode.workload.sweep.cells import Cell
from specdecode.workload.sweep.crossover import crossover
from specdecode.workload.sweep.paired import seconds_per_token, throughput
from specdecode.workload.sweep.recommend import Recommendation, recommend
from specdecode.workload.sweep.spec import SweepSpec

Json = dict[str, Any]
_SHOWN = ("ttft_s", "tpot_s", "e2e_s", "mean_acceptance_length", "acceptance_rate")


@dataclass(frozen=True)
class Analysis:
    """What follows from the cells.

    Attributes:
        points: arm x concurrency over all rounds, JSON-safe.
        crossovers: one per drafting arm, JSON-safe.
        recommendations: one per baseline that an arm could be compared with.
    """

    points: list[Json]
    crossovers: list[Json]
    recommendations: list[Recommendation]


def analyse(spec: SweepSpec, arms: Sequence[Arm], cells: Sequence[Cell]) -> Analysis:
    """Numbers per arm and load, ratios over plain decoding, crossovers, recommendations.

    Args:
        spec: of the sweep.
        arms: all that were asked for; one without cells has points without numbers.
        cells: those that were measured.
    """
    grid: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        grid[cell.arm, cell.concurrency].append(cell)
    points = [_point(spec, arm, load, grid) for arm in arms for load in spec.concurrency]
    by_baseline: dict[str, list[Arm]] = defaultdict(list)
    for arm in arms:
        if arm.baseline is not None:
            by_baseline[arm.baseline].append(arm)
    names = {arm.name: arm for arm in arms}
    crossovers = []
    compared: set[str] = set()
    for arm in arms:
        if arm.baseline is None:
            continue
        ratios = {
            load: throughput(grid.get((arm.name, load), []), grid.get((arm.baseline, load), []))
            for load in spec.concurrency
        }
        if any(ratio.rounds for ratio in ratios.values()):
            compared.add(arm.baseline)
        known = {"arm": arm.name, "rule": arm.rule, "num_speculative_tokens": arm.draft_length}
        crossovers.append(known | crossover(ratios, spec.level))
    recommendations = [
        recommend(names[name], rivals, grid, spec.level)
        for name, rivals in by_baseline.items()
        if name in compared
    ]
    return Analysis(points, crossovers, recommendations)


def _point(
    spec: SweepSpec, arm: Arm, load: int, grid: Mapping[tuple[str, int], list[Cell]]
) -> Json:
    all_cells = grid.get((arm.name, load), [])
    cells = [cell for cell in all_cells if cell.whole]
    records = [record for cell in cells for record in cell.records]
    seconds = sum(cell.seconds for cell in cells)
    tokens = sum(cell.tokens or 0 for cell in cells)
    found: Json = {
        "arm": arm.name,
        "rule": arm.rule,
        "num_speculative_tokens": arm.draft_length,
        "concurrency": load,
        "rounds": len(all_cells),
        "rounds_left_out": len(all_cells) - len(cells),
        "output_tokens_per_s": tokens / seconds if seconds else None,
        "requests_per_s": len(records) / seconds if seconds else None,
    }
    for name in _SHOWN:
        summary = summarise_metric(METRICS[name], records)
        found[name] = {"n": summary.n, "pooled": summary.pooled, **summary.quantiles}
    found |= _money(cells, tokens)
    if arm.baseline is not None:
        plain = grid.get((arm.baseline, load), [])
        found["throughput_over_plain"] = throughput(all_cells, plain).to_json(spec.level)
        found["tpot_over_plain"] = seconds_per_token(all_cells, plain).to_json(spec.level)
    return found


def _money(cells: Sequence[Cell], tokens: int) -> Json:
    """Of all rounds together; None as soon as one of them lacks the number."""
    costs = [cell.summary.get("cost", {}) for cell in cells]
    total = _sum(cost.get("total") for cost in costs)
    goods = [cell.summary.get("goodput") for cell in cells]
    good = _sum(None if each is None else each["good"] for each in goods)
    energies = [cost.get("energy") for cost in costs]
    joules = _sum(e["joules"] if isinstance(e, Mapping) else None for e in energies)
    return {
        "good_requests": good,
        "cost_per_million_useful_tokens": _each(total, tokens, 1e6),
        "cost_per_request_within_slo": _each(total, good, 1.0),
        "joules_per_useful_token": _each(joules, tokens, 1.0),
    }


def _sum(values: Any) -> float | None:
    known = list(values)
    return None if not known or None in known else sum(known)


def _each(total: float | None, number: float | None, scale: float) -> float | None:
    return None if total is None or not number else total / number * scale
