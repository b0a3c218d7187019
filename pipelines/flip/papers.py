"""Plan and parameters of a flip: those of the repository, changed where the flip needs it.

The questions, thresholds and levels stay. What changes is what the experiment is: the arms' draft,
the number of prompts, and parts of the traffic that a flip's prompts do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.flip.catalogue import UNCHANGED, Flip, Population
from pipelines.flip.population import COVERED, Labels, kept_of, labels_of, settings_for
from pipelines.parameters import check, merged, read_mapping
from pipelines.workspace import parameters_of
from specdecode.governance.plan import parse_plan

PLAN = "plans/default.yaml"
# Tokens that a word of the notes may cost at most, with any tokenizer worth the name.
TOKENS_PER_WORD = 6


@dataclass(frozen=True)
class Papers:
    """What a flip is run with.

    Attributes:
        params: parameters of its copy.
        plan: its plan, as a document.
        population: settings of its prompts, or None where they are the plan's own.
        changed: what differs, each "key: before -> after"; not the checks that had to follow.
    """

    params: dict[str, Any]
    plan: dict[str, Any]
    population: dict[str, Any] | None
    changed: list[str]


def papers_of(root: Path, profile: str, flip: Flip) -> Papers:
    """Returns what `flip` is run with under `profile`.

    Raises:
        AlreadySoError: the flip would change nothing.
        ConfigError: parameters or plan are not what they may be.
    """
    base = parameters_of(root, profile)
    plan = read_mapping(root / PLAN)
    parse_plan(plan, root / PLAN)
    params = merged(base, flip.override(base))
    changed, population = differences(base, params), None
    if flip.population is not None:
        every = labels_of(root, base)
        kept = kept_of(every, flip.population.keep)
        population = settings_for(flip.population, kept, params)
        changed += _other_prompts(flip.population, kept, every, params["prompts"]["split"])
        _fit_checks(params, kept, part=len(kept) < len(every))
        more = flip.population.note_words * TOKENS_PER_WORD
        params["validate"]["max_prompt_tokens"] += more
        if plan.get("traffic"):
            plan["traffic"]["longest_prompt_tokens"] += more
        if len(kept) < len(every):
            _fit_traffic(plan, params, kept)
    if flip.name != UNCHANGED:
        plan["name"] = f"{plan['name']}-{flip.name}"
    _fit_arms(plan, base, params)
    check(params)
    parse_plan(plan, f"the plan of the flip '{flip.name}'")
    return Papers(params, plan, population, changed)


def differences(before: Mapping[str, Any], after: Mapping[str, Any], under: str = "") -> list[str]:
    """Returns every parameter that differs, as "key: before -> after"."""
    found: list[str] = []
    for key in before:
        old, new = before[key], after[key]
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{under}{key}.")
        elif old != new:
            found.append(f"{under}{key}: {_short(old)} -> {_short(new)}")
    return found


def _short(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return ", ".join(f"{entry.get('name')} {entry.get('temperature'):g}" for entry in value)
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _other_prompts(
    population: Population, kept: Mapping[str, Labels], every: Mapping[str, Labels], half: str
) -> list[str]:
    before, after = (
        sum(found["split"] == half for found in labels.values()) for labels in (every, kept)
    )
    lines = [f"prompts to choose from: {before} -> {after}"] if before != after else []
    if population.note_words:
        lines.append(f"words before every prompt: 0 -> {population.note_words}")
    return lines


def _fit_checks(params: dict[str, Any], kept: Mapping[str, Labels], part: bool) -> None:
    """Of a part of the prompts the data checks demand what the part can have."""
    checks = params["validate"] = dict(params["validate"])
    if not part:
        return
    checks["min_prompts"] = min(checks["min_prompts"], len(kept))
    checks["max_split_imbalance"] = 1.0
    for label, many in zip(COVERED, ("categories", "languages", "difficulties"), strict=True):
        checks[f"required_{many}"] = sorted({found[label] for found in kept.values()})
        checks[f"min_per_{label}"] = 1


def _fit_traffic(
    plan: dict[str, Any], params: Mapping[str, Any], kept: Mapping[str, Labels]
) -> None:
    """The plan expects as many prompts as there are, and no part of the traffic that is gone."""
    section, profile = params["prompts"], params["profile"]
    there = sum(found["split"] == section["split"] for found in kept.values())
    measured = there if section["limit"] is None else min(there, section["limit"])
    expected = dict(plan.get("prompts_expected") or {})
    if profile in expected:
        expected[profile] = min(expected[profile], measured)
    plan["prompts_expected"] = expected
    present = {label: {found[label] for found in kept.values()} for label in COVERED}
    rules = []
    for rule in plan.get("rules") or []:
        if rule.get("kind") == "strata":
            left = _present(rule["strata"], present)
            if not left:
                continue
            rule["strata"] = left
        rules.append(rule)
    plan["rules"] = rules
    if plan.get("strata"):
        plan["strata"] = _present(plan["strata"], present)


def _present(
    strata: Mapping[str, list[str]], present: Mapping[str, set[str]]
) -> dict[str, list[str]]:
    left = {
        by: [value for value in values if by not in present or value in present[by]]
        for by, values in strata.items()
    }
    return {by: values for by, values in left.items() if values}


def _fit_arms(plan: dict[str, Any], base: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Arms that draft name the draft and the length they are measured with."""
    drafts = (base["draft"]["source"], params["draft"]["source"])
    tokens = params["decoding"]["num_speculative_tokens"]
    for arm in plan.get("arms") or []:
        if drafts[0] != drafts[1] and arm.get("draft") == drafts[0]:
            arm["draft"] = drafts[1]
        if arm.get("num_speculative_tokens") is not None:
            arm["num_speculative_tokens"] = tokens
