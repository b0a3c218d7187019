"""Rows as they would come if supposed effects were true.

Made column by column, since a simulation needs many thousands. Times are of one request on an idle
machine: seconds per token scatter log-normally around the arm's mean, and a factor of its own for
each prompt, the same for all speculative arms, scatters the speed ratio between prompts. Each step
accepts a binomial number of draft tokens. Scores are 0 or 1, and agree with the baseline's as often
as `same_score` says. A request that fails keeps its numbers, which no metric reads.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from specdecode.governance.plan_arms import Arm
from specdecode.governance.plan_power import Effects
from specdecode.governance.plan_schema import Plan
from specdecode.measurement.records import STRATA
from specdecode.measurement.records import checked as checked_table

Column = npt.NDArray[Any]

SECONDS_PER_TOKEN = 0.03
"""Of plain decoding. Only ratios decide, so its value does not matter."""

_MANIFEST = "0" * 64
_NOTHING = np.asarray(None, dtype=object)
_FAILED = np.asarray("supposed failure", dtype=object)


def simulated_rows(plan: Plan, *, prompts: int, profile: str, rng: np.random.Generator) -> pa.Table:
    """One complete run of a plan's stage under the plan's supposed effects, as a table."""
    columns = simulated_columns(plan, prompts=prompts, profile=profile, rng=rng)
    return checked_table(pa.table({k: pa.array(v.tolist()) for k, v in columns.items()}))


def simulated_columns(
    plan: Plan, *, prompts: int, profile: str, rng: np.random.Generator
) -> dict[str, Column]:
    """One complete run of a plan's stage under the plan's supposed effects.

    Args:
        plan: gives arms, settings, strata, stage and effects.
        prompts: how many.
        profile: of every row.
        rng: source of all chance.

    Returns:
        By name, columns of settings x arms x prompts rows, in this order. Those that no rule reads
        are left out.
    """
    effects = plan.power.effects
    of_prompt = _labels(plan, prompts, rng)
    of_prompt["prompt_id"] = np.asarray([f"p{index:06d}" for index in range(prompts)])
    spread = effects.prompt_spread
    slower = np.exp(spread * rng.standard_normal(prompts) - spread**2 / 2)
    checked = rng.permutation(prompts) < round(effects.checked * prompts)
    parts: list[dict[str, Column]] = []
    for setting in plan.sampling:
        right = rng.random(prompts) < effects.quality
        lengths = _lengths(effects, prompts, rng)
        for arm in plan.arms:
            if setting != "greedy" and arm.name != plan.baseline:
                lengths = _lengths(effects, prompts, rng)  # another reply to the same prompt
            columns = _decoded(arm, effects, lengths, slower, rng)
            scores = _scores(arm, effects, right, rng)
            columns["quality"] = np.where(checked, scores, _NOTHING)
            columns["error"] = _errors(arm, effects, prompts, rng)
            parts.append(columns | of_prompt | _named(arm.name, setting, of_prompt["prompt_id"]))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    rows = len(columns["prompt_id"])
    constants = {"stage": plan.stage, "profile": profile, "manifest_sha256": _MANIFEST}
    return columns | {name: np.full(rows, value) for name, value in constants.items()}


def draft_tokens(arm: Arm, effects: Effects) -> int:
    """γ of an arm: its own, or what the effects suppose of the run."""
    return arm.num_speculative_tokens or effects.num_speculative_tokens


def _lengths(effects: Effects, prompts: int, rng: np.random.Generator) -> Column:
    """Visible tokens of each reply, from half to one and a half times the mean."""
    mean = effects.output_tokens
    return rng.integers(max(2, mean // 2), mean + mean // 2, prompts, endpoint=True)


def _decoded(
    arm: Arm, effects: Effects, lengths: Column, slower: Column, rng: np.random.Generator
) -> dict[str, Column]:
    """Times and counts of one arm and setting. Mean seconds per token are the supposed ones."""
    spread = effects.request_spread
    noise = np.exp(spread * rng.standard_normal(len(lengths)) - spread**2 / 2)
    per_token = SECONDS_PER_TOKEN * noise
    if arm.name not in effects.arms:
        counts = (lengths, 0 * lengths, 0 * lengths, lengths)
    else:
        effect, gamma = effects.arms[arm.name], draft_tokens(arm, effects)
        per_token *= slower / effect.speed_ratio
        exact = (lengths - 1) / effect.acceptance_length  # the prompt's own pass gives one token
        steps = np.maximum(1, np.floor(exact + rng.random(len(lengths)))).astype(np.int64)
        accepted = rng.binomial(gamma * steps, (effect.acceptance_length - 1) / gamma)
        counts = (steps, gamma * steps, accepted, (gamma + 1) * steps)
    names = ("steps", "drafted", "accepted", "target_tokens")
    times = {"output_tokens": lengths, "ttft_s": per_token, "e2e_s": per_token * lengths}
    return dict(zip(names, counts, strict=True)) | times


def _scores(arm: Arm, effects: Effects, right: Column, rng: np.random.Generator) -> Column:
    """The arm's scores beside the baseline's, which are 1 where `right`."""
    if arm.name not in effects.arms:
        return right.astype(np.float64)
    gained, lost = effects.score_changes(arm.name)
    share = effects.quality
    flip = np.where(right, lost / max(share, 1e-12), gained / max(1 - share, 1e-12))
    return np.asarray(right ^ (rng.random(len(right)) < flip), dtype=np.float64)


def _errors(arm: Arm, effects: Effects, prompts: int, rng: np.random.Generator) -> Column:
    rate = effects.arms[arm.name].error_rate if arm.name in effects.arms else 0.0
    failed: Column = rng.random(prompts) < rate
    return np.where(failed, _FAILED, _NOTHING)


def _named(arm: str, setting: str, prompts: Column) -> dict[str, Column]:
    """What tells a row from all others, and the settings its name stands for."""
    sampling = json.dumps({"name": setting, "temperature": 0.0 if setting == "greedy" else 1.0})
    return {
        "request_id": np.asarray([f"{prompt}/{setting}/{arm}" for prompt in prompts]),
        "arm": np.full(len(prompts), arm),
        "sampling": np.full(len(prompts), sampling),
    }


def _labels(plan: Plan, prompts: int, rng: np.random.Generator) -> dict[str, Column]:
    """Values of the strata that rules name: shares as supposed, order by chance."""
    labels = {}
    for by in STRATA:
        if not (values := plan.stratum_values(by)):
            continue
        shares = plan.power.effects.shares.get(by) or dict.fromkeys(values, 1 / len(values))
        ends = np.round(np.cumsum(list(shares.values())) * prompts)
        which = np.searchsorted(ends, np.arange(prompts), side="right").clip(max=len(shares) - 1)
        labels[by] = np.asarray(list(shares))[which][rng.permutation(prompts)]
    return labels
