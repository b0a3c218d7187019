"""The handful of numbers below the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.report.estimate import interval, number, read_estimate
from pipelines.report.inputs import ReportInputs
from pipelines.report.sections.speed import TOO_FEW


@dataclass(frozen=True)
class Tile:
    """One number with its name and what it rests on."""

    label: str
    value: str
    note: str


def tiles(inputs: ReportInputs) -> list[Tile]:
    """Speed of every arm, losslessness, acceptance and quality of the arm the plan judges."""
    found = [_speed(inputs, arm) for arm in inputs.candidates]
    found.append(_lossless(inputs))
    arm = judged_arm(inputs)
    if arm is not None:
        found.append(_acceptance(inputs, arm))
        found.append(_quality(inputs, arm))
    return found


def judged_arm(inputs: ReportInputs) -> str | None:
    """Arm of the plan's first primary rule, else the first candidate; None without candidates."""
    for rule in inputs.verdict.get("rules") or ():
        if rule.get("role") == "primary" and rule.get("arm") in inputs.candidates:
            return str(rule["arm"])
    return inputs.candidates[0] if inputs.candidates else None


def _speed(inputs: ReportInputs, arm: str) -> Tile:
    ratio = read_estimate(inputs.overall["comparisons"][arm]["speed_ratio"], reason=TOO_FEW)
    if ratio.value is None:
        return Tile(f"Speed, {arm}", "not measured", ratio.reason or "")
    note = f"{interval(ratio.low, ratio.high)}, {ratio.n or 0} prompts"
    return Tile(f"Speed, {arm}", number(ratio.value, unit="×"), note)


def _lossless(inputs: ReportInputs) -> Tile:
    audits = (inputs.audit or {}).get("arms") or {}
    verdicts = {arm: str(audits[arm]["verdict"]) for arm in inputs.candidates if arm in audits}
    if not verdicts:
        return Tile("Losslessness", "not measured", "no audit of this run")
    order = ("biased", "undecided", "lossless")
    worst = min(verdicts.values(), key=lambda word: order.index(word) if word in order else 0)
    note = ", ".join(f"{arm}: {verdict}" for arm, verdict in verdicts.items())
    return Tile("Losslessness", worst, note)


def _acceptance(inputs: ReportInputs, arm: str) -> Tile:
    length = inputs.overall["arms"][arm]["metrics"]["mean_acceptance_length"]
    note = f"bonus token included, {length['n']} requests"
    return Tile(f"Tokens per step, {arm}", number(length["pooled"]), note)


def _quality(inputs: ReportInputs, arm: str) -> Tile:
    found = read_estimate(inputs.overall["comparisons"][arm]["quality_difference"])
    if found.value is None:
        return Tile(f"Quality, {arm}", "not measured", "no prompt with a checker in both arms")
    value = f"{found.value * 100:+.1f} points"
    ends = interval(found.low, found.high, 1, scale=100.0)
    return Tile(f"Quality, {arm}", value, f"{ends} against {inputs.baseline}, {found.n} prompts")
