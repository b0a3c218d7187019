"""The handful of numbers below the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.report.estimate import read_estimate
from pipelines.report.inputs import ReportInputs
from pipelines.report.words import Words


@dataclass(frozen=True)
class Tile:
    """One number with its name and what it rests on."""

    label: str
    value: str
    note: str


def tiles(inputs: ReportInputs, words: Words) -> list[Tile]:
    """Speed of every arm, losslessness, acceptance and quality of the arm the plan judges."""
    found = [_speed(inputs, arm, words) for arm in inputs.candidates]
    found.append(_lossless(inputs, words))
    arm = judged_arm(inputs)
    if arm is not None:
        found.append(_acceptance(inputs, arm, words))
        found.append(_quality(inputs, arm, words))
    return found


def judged_arm(inputs: ReportInputs) -> str | None:
    """Arm of the plan's first primary rule, else the first candidate; None without candidates."""
    for rule in inputs.verdict.get("rules") or ():
        if rule.get("role") == "primary" and rule.get("arm") in inputs.candidates:
            return str(rule["arm"])
    return inputs.candidates[0] if inputs.candidates else None


def _speed(inputs: ReportInputs, arm: str, words: Words) -> Tile:
    ratio = read_estimate(inputs.overall["comparisons"][arm]["speed_ratio"])
    label = words("tile.speed", arm=arm)
    if ratio.value is None:
        return Tile(label, words("not_measured"), words("too_few"))
    ends = words.interval(ratio.low, ratio.high)
    note = words("tile.over_prompts", interval=ends, n=ratio.n or 0)
    return Tile(label, words.number(ratio.value, unit="×"), note)


def _lossless(inputs: ReportInputs, words: Words) -> Tile:
    audits = (inputs.audit or {}).get("arms") or {}
    verdicts = {arm: str(audits[arm]["verdict"]) for arm in inputs.candidates if arm in audits}
    label = words("lossless.title")
    if not verdicts:
        return Tile(label, words("not_measured"), words("tile.no_audit"))
    order = ("biased", "undecided", "lossless")
    worst = min(verdicts.values(), key=lambda word: order.index(word) if word in order else 0)
    note = words("list_comma").join(
        f"{arm}: {words.label('outcome', verdict)}" for arm, verdict in verdicts.items()
    )
    return Tile(label, words.label("outcome", worst), note)


def _acceptance(inputs: ReportInputs, arm: str, words: Words) -> Tile:
    length = inputs.overall["arms"][arm]["metrics"]["mean_acceptance_length"]
    note = words("tile.bonus", n=length["n"])
    return Tile(words("tile.tokens", arm=arm), words.number(length["pooled"]), note)


def _quality(inputs: ReportInputs, arm: str, words: Words) -> Tile:
    found = read_estimate(inputs.overall["comparisons"][arm]["quality_difference"])
    label = words("tile.quality", arm=arm)
    if found.value is None:
        return Tile(label, words("not_measured"), words("tile.no_checker"))
    value = words("tile.points", value=f"{found.value * 100:+.1f}")
    ends = words.interval(found.low, found.high, 1, scale=100.0)
    note = words("tile.against", interval=ends, baseline=inputs.baseline, n=found.n)
    return Tile(label, value, note)
