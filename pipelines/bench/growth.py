"""How cost grows with the batch and with γ: the speed-up formula beside what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.bench.passes import pass_seconds
from pipelines.bench.turns import BenchPrompt, Row
from specdecode import Engine, SamplingParams
from specdecode.models import LoadedModel
from specdecode.models.network import CausalNetwork

BATCHES = (1, 2, 4, 8, 16, 32)
GAMMAS = (1, 2, 4, 6, 8, 12)
_DEPTH = 64  # position at which passes are timed
_REPEATS = 7


def growth(
    target: LoadedModel, draft: str, prompts: Sequence[BenchPrompt], tokens: int
) -> tuple[dict[str, Any], list[Row]]:
    """Measure speculation at every batch size and γ, and take its cost apart.

    With c = draft pass / target pass and α the share of draft tokens that would be accepted one by
    one, the textbook speed-up is (1 - α^(γ+1)) / ((1 - α)(γ c + 1)) (Leviathan et al., arXiv
    2211.17192). It takes a pass over γ + 1 tokens to cost as much as one over a single token; the
    second prediction puts the measured times of the passes in the same place. What is left between
    that and the measurement is what a pass does not contain. Sampling and bookkeeping are paid once
    a token by plain decoding and once a step by speculation, which lifts the measured ratio above
    the prediction; drafting and verifying, and rows that wait for the slowest of their batch,
    press it down.

    Returns:
        the `growth` part of the report (one entry a cell), and its rows.
    """
    rows: list[Row] = []
    drafting = Engine.load(target, draft).drafter
    network: CausalNetwork = drafting.network  # type: ignore[union-attr]  # a self-draft has one
    for batch in BATCHES:
        _run(Engine.load(target), prompts[:batch], tokens)  # the first batch of a size allocates
        target_s = _pass(target.network, batch, 1)
        draft_s = _pass(network, batch, 1)
        for gamma in GAMMAS:
            engine = Engine.load(target, draft, num_speculative_tokens=gamma)
            # Plain decoding is measured again beside each cell: the machine drifts.
            plain = _run(Engine.load(target), prompts[:batch], tokens)
            speculative = _run(engine, prompts[:batch], tokens)
            length = speculative["mean_acceptance_length"]
            verify_s = _pass(target.network, batch, gamma + 1)
            alpha = _alpha(length, gamma)
            c = draft_s / target_s
            rows.append(
                {
                    "section": "growth",
                    "batch": batch,
                    "gamma": gamma,
                    "measured": round(plain["seconds"] / speculative["seconds"], 4),
                    "predicted_by_formula": round(_series(alpha, gamma) / (gamma * c + 1), 4),
                    "predicted_by_passes": round(
                        length * target_s / (gamma * draft_s + verify_s), 4
                    ),
                    "mean_acceptance_length": round(length, 4),
                    "draft_pass_ms": round(1e3 * draft_s, 3),
                    "target_pass_ms": round(1e3 * target_s, 3),
                    "verify_pass_ms": round(1e3 * verify_s, 3),
                    "plain_tokens_per_s": round(plain["tokens"] / plain["seconds"], 2),
                    "speculative_tokens_per_s": round(
                        speculative["tokens"] / speculative["seconds"], 2
                    ),
                }
            )
    return {"cells": rows, "drafter": draft, "tokens": tokens}, rows


def _run(engine: Engine, prompts: Sequence[BenchPrompt], tokens: int) -> dict[str, float]:
    params = [
        SamplingParams(max_tokens=tokens, seed=i, ignore_eos=True) for i in range(len(prompts))
    ]
    results = engine.generate([p.ids for p in prompts], params)
    steps = sum(r.acceptance.steps for r in results)
    # Prompt processing is left out: it is the same for both.
    seconds = max(r.timing.e2e_s for r in results) - min(r.timing.ttft_s for r in results)
    return {
        "seconds": seconds,
        "tokens": float(sum(len(r.token_ids) - 1 for r in results)),
        "mean_acceptance_length": 1 + sum(r.acceptance.accepted for r in results) / max(1, steps),
    }


def _pass(network: CausalNetwork, batch: int, width: int) -> float:
    return pass_seconds(network, batch=batch, width=width, depth=_DEPTH, repeats=_REPEATS)


def _series(alpha: float, gamma: int) -> float:
    """1 + α + … + α^γ, the expected tokens a step."""
    return sum(alpha**i for i in range(gamma + 1))


def _alpha(length: float, gamma: int) -> float:
    """The α whose `_series` is `length`, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _series(middle, gamma) < length else (low, middle)
    return low
