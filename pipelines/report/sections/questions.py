"""The seven questions of a plan: what was answered before the run, and what the run says to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipelines.report.findings import stratum_label
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Cell, Quoted, Section, Table, quote
from pipelines.report.sensitivity import margins
from pipelines.report.words import Words

QUESTIONS = ("purpose", "mechanism", "baseline", "evidence", "operation", "risk", "recovery")


def questions_section(inputs: ReportInputs, words: Words) -> Section:
    """One line a question."""
    plan = inputs.plan or {}
    rows = [
        [
            words(f"questions.{name}"),
            _answer(_PLAN[name](plan, words), words),
            _DATA[name](inputs, words),
        ]
        for name in QUESTIONS
    ]
    table = Table(
        words("questions.caption"),
        [words(f"questions.{name}") for name in ("question", "plan", "data")],
        rows,
    )
    return Section("questions", words("questions.title"), words("questions.lead"), (), [table])


def _answer(text: str, words: Words) -> Cell:
    return quote(words, text) if text else words("not_stated")


def _text(plan: Mapping[str, Any], *path: str) -> str:
    value: object = plan
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, list):
        return "; ".join(str(item) for item in value)
    return "" if value is None else str(value).strip()


def _join(*texts: str) -> str:
    return " ".join(text for text in texts if text)


def _mechanism(plan: Json, _: Words) -> str:
    return "; ".join(
        f"{arm.get('name')}: {arm.get('draft')}, {arm.get('verification')}"
        for arm in plan.get("arms") or ()
        if isinstance(arm, Mapping) and arm.get("draft")
    )


def _rules(plan: Json, _: Words) -> str:
    return "; ".join(
        f"{rule.get('name')}: {_asked(rule)}".removesuffix(": ")
        for rule in plan.get("rules") or ()
        if isinstance(rule, Mapping) and rule.get("role") == "primary"
    )


def _asked(rule: Mapping[str, Any]) -> str:
    names = ("threshold", "margin", "alpha", "level", "n_min")
    return ", ".join(f"{name} {rule[name]:g}" for name in names if name in rule)


def _recovery(plan: Json, _: Words) -> str:
    return " ".join(
        f"{stop.get('condition')} → {stop.get('recovery')} ({_text(stop, 'tested', 'when')})"
        for stop in plan.get("stop_conditions") or ()
        if isinstance(stop, Mapping)
    )


def _hours(plan: Json, words: Words) -> str:
    upkeep = plan.get("maintenance") or {}
    if not upkeep:
        return ""
    return words(
        "questions.hours",
        month=_text(upkeep, "hours_per_month"),
        review=_text(upkeep, "review_hours"),
    )


_PLAN: dict[str, Callable[[Json, Words], str]] = {
    "purpose": lambda plan, _: _join(_text(plan, "decision"), _text(plan, "bottleneck")),
    "mechanism": _mechanism,
    "baseline": lambda plan, _: _join(
        _text(plan, "population"), _text(plan, "simplest_alternative")
    ),
    "evidence": _rules,
    "operation": _hours,
    "risk": lambda plan, _: _join(
        _text(plan, "cost_of_wrong", "false_go"), _text(plan, "cost_of_wrong", "false_no_go")
    ),
    "recovery": _recovery,
}


def _judged(inputs: ReportInputs) -> str | None:
    named = [r.get("arm") for r in inputs.verdict.get("rules") or () if r.get("role") == "primary"]
    return next(
        (str(arm) for arm in [*named, *inputs.candidates] if arm in inputs.candidates), None
    )


def _metric(inputs: ReportInputs, arm: str | None, name: str, of: str = "pooled") -> float | None:
    if arm is None:
        return None
    value = inputs.overall["arms"][arm]["metrics"][name].get(of)
    return None if value is None else float(value)


def _status(inputs: ReportInputs, words: Words) -> str:
    status = str(inputs.verdict.get("status"))
    return words("questions.verdict", status=words.label("outcome", status.lower()))


def _acceptance(inputs: ReportInputs, words: Words) -> str:
    arm = _judged(inputs)
    return words(
        "questions.acceptance",
        arm=arm or words("none"),
        length=words.number(_metric(inputs, arm, "mean_acceptance_length")),
        share=words.share(_metric(inputs, arm, "acceptance_rate")),
        work=words.number(_metric(inputs, arm, "target_tokens_per_output_token")),
    )


def _today(inputs: ReportInputs, words: Words) -> str:
    return words(
        "questions.today",
        baseline=inputs.baseline,
        speed=words.number(_metric(inputs, inputs.baseline, "output_tokens_per_s"), 1),
        p95=words.number(_metric(inputs, inputs.baseline, "e2e_s", "p95")),
        load=words("questions.swept") if inputs.sweep else words("questions.not_swept"),
    )


def _size(inputs: ReportInputs, words: Words) -> str:
    rules = [r for r in inputs.verdict.get("rules") or () if r.get("role") == "primary"]
    shown = sum(rule["outcome"] == "pass" for rule in rules)
    return words(
        "questions.size",
        rows=f"{inputs.metrics['rows']:,}",
        prompts=f"{inputs.metrics['prompts']:,}",
        shown=shown,
        n=len(rules),
    )


def _service(inputs: ReportInputs, words: Words) -> str:
    arm = _judged(inputs)
    peak = inputs.metrics.get("peak_rss_bytes")
    found = inputs.overall["arms"].get(arm or "", {})
    return words(
        "questions.service",
        arm=arm or words("none"),
        p99=words.number(_metric(inputs, arm, "e2e_s", "p99")),
        failed=found.get("errors", 0),
        n=found.get("requests", 0),
        memory=words.number(None if peak is None else peak / 2**20, 0, " MiB"),
    )


def _nearest(inputs: ReportInputs, words: Words) -> str:
    status = inputs.verdict.get("status")
    turning = [m for m in margins(inputs.verdict, inputs.audit) if m.status != status]
    first = next((m for m in turning if m.half_widths is not None), None)
    if first is None:
        return words("questions.no_margin")
    stratum = first.rule.get("stratum")
    name = str(first.rule["name"])
    return words(
        "questions.nearest",
        rule=f"{name}, {stratum_label(stratum, words)}" if stratum else name,
        half_widths=f"{first.half_widths:.1f}",
        status=words.label("outcome", first.status.lower()),
    )


def _rehearsed(inputs: ReportInputs, words: Words) -> str | Quoted:
    stops = [s for s in (inputs.plan or {}).get("stop_conditions") or () if isinstance(s, Mapping)]
    tested = sum(bool(stop.get("tested")) for stop in stops)
    return words("questions.rehearsed", tested=tested, n=len(stops))


_DATA: dict[str, Callable[[ReportInputs, Words], Cell]] = {
    "purpose": _status,
    "mechanism": _acceptance,
    "baseline": _today,
    "evidence": _size,
    "operation": _service,
    "risk": _nearest,
    "recovery": _rehearsed,
}
