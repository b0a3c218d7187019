"""Whether the output is still the target's own: the audit's evidence."""

from __future__ import annotations

from pipelines.report.charts.evidence import evidence_curve
from pipelines.report.estimate import NOT_MEASURED, number
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Badge, Cell, Section, Table
from pipelines.report.theme import sort_arms

_PAIRS = ("pairs", "identical", "diverged_tie", "diverged_failure", "ends_differ")


def losslessness_section(inputs: ReportInputs) -> Section:
    """Evidence curve of every arm and the greedy comparison."""
    title = "Losslessness"
    if inputs.audit is None:
        return Section(
            "losslessness",
            title,
            "Not measured: there is no audit of this run. Nothing is known about losslessness.",
        )
    audits: Json = inputs.audit["arms"]
    alpha = inputs.audit.get("alpha")
    curves = {arm: points(found.get("evidence") or ()) for arm, found in audits.items()}
    arms = sort_arms(list(audits))
    return Section(
        "losslessness",
        title,
        "Sampled outputs are tested token by token against the target's own distribution; greedy "
        "outputs must equal plain decoding, up to ties within the measured numerical tolerance.",
        [evidence_curve(curves, alpha)],
        [
            _sampled(audits, arms, alpha),
            _greedy_tokens(audits, arms),
            _greedy_replies(audits, arms, inputs.baseline),
        ],
    )


def points(evidence: object) -> list[tuple[float, float]]:
    """(tokens, log e) pairs; a point without a finite value was not measured and is left out."""
    pairs = []
    for point in evidence if isinstance(evidence, list | tuple) else ():
        tokens, value = point
        if tokens is not None and value is not None:
            pairs.append((float(tokens), float(value)))
    return pairs


def _place(first: Json | None) -> str:
    """Where evidence first sufficed."""
    if first is None:
        return "none"
    return f"{first.get('row')}, token {first.get('position')} ({first.get('kind')})"


def _sampled(audits: Json, arms: list[str], alpha: float | None) -> Table:
    limit = None if not alpha else 1.0 / alpha
    rows: list[list[Cell]] = []
    for arm in arms:
        found = audits[arm]
        rows.append(
            [
                arm,
                Badge(str(found["verdict"])),
                _e_value(found.get("e_value")),
                number(limit, 0),
                number(found.get("tokens_read"), 0),
                number(found.get("min_tokens"), 0),
                _place(found.get("first_evidence")),
                "; ".join(str(reason) for reason in found.get("reasons") or ()),
            ]
        )
    return Table(
        "Audit by arm",
        (
            "arm",
            "finding",
            "e-value",
            "limit",
            "tokens read",
            "tokens wanted",
            "first evidence",
            "reasons",
        ),
        rows,
        numeric=range(2, 6),
        note="The chance that a lossless arm ever reaches the limit is at most one in the limit.",
    )


def _e_value(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.3g}"


def _greedy_tokens(audits: Json, arms: list[str]) -> Table:
    rows = []
    for arm in arms:
        greedy = audits[arm].get("greedy") or {}
        counts = [number(greedy.get(key), 0) for key in ("exact", "ties", "failures")]
        rows.append([arm, *counts, _tolerance(greedy.get("tie_tolerance"))])
    return Table(
        "Greedy tokens against the target's best",
        ("arm", "best", "tied", "wrong", "tie tolerance"),
        rows,
        numeric=range(1, 5),
        note="A tied token's logit lies closer to the best one than the tolerance, which was "
        "measured with this model on this machine.",
    )


def _greedy_replies(audits: Json, arms: list[str], baseline: str) -> Table:
    rows = []
    for arm in arms:
        if arm != baseline:
            pairs = (audits[arm].get("greedy") or {}).get("against_baseline") or {}
            rows.append([arm, *(number(pairs.get(key), 0) for key in _PAIRS)])
    return Table(
        f"Greedy replies against {baseline} decoding",
        ("arm", "compared", "equal", "part at a tie", "part at a wrong token", "end elsewhere"),
        rows,
        numeric=range(1, 6),
    )


def _tolerance(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else NOT_MEASURED
