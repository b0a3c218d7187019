"""Decoding at batch 1: this engine beside transformers, speculation beside plain decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.bench.arms import Arm, EngineArm, TransformersArm
from pipelines.bench.turns import (
    BenchPrompt,
    Row,
    mean_length,
    per_token_ms,
    speed_ratio,
    take_turns,
)
from specdecode import Engine
from specdecode.models import LoadedModel

GREEDY, SAMPLED = 0.0, 1.0
BEST = "self-int4"


def decode(
    target: LoadedModel,
    draft: LoadedModel,
    prompts: Sequence[BenchPrompt],
    *,
    tokens: int,
    gamma: int,
) -> tuple[dict[str, Any], list[Row]]:
    """Measure the arms and state their ratios.

    Args:
        target: decoded by every arm.
        draft: draft model of both assisted generation and this engine's like-for-like arm.
        prompts: at batch 1, in turns.
        tokens: length of each reply.
        gamma: draft tokens a step, everywhere but in the adaptive arm.

    Returns:
        the `decode` part of the report, and its rows.
    """
    # A fifteenth of the layers, untrained to exit there: it is never right.
    none = f"early-exit:{max(1, target.config.num_hidden_layers // 15)}"
    useless = Engine.load(target, none, num_speculative_tokens="adaptive")
    best = Engine.load(target, BEST, num_speculative_tokens=gamma)
    like = Engine.load(target, draft.path, num_speculative_tokens=gamma)
    arms: list[Arm] = [
        TransformersArm("transformers generate", target),
        TransformersArm("transformers assisted", target, draft, gamma),
        EngineArm("plain", Engine.load(target)),
        EngineArm("draft model", like),
        EngineArm(BEST, best),
        EngineArm(f"{BEST} adaptive", Engine.load(target, BEST, num_speculative_tokens="adaptive")),
        EngineArm("useless draft, adaptive", useless),
    ]
    rows = take_turns("decode", arms, prompts, (GREEDY, SAMPLED), tokens)
    by_temperature = {"greedy": GREEDY, "sampled": SAMPLED}

    def both(slow: str, fast: str, *, decoding_only: bool = False) -> dict[str, Any]:
        def ratio(temperature: float | None) -> Row:
            return speed_ratio(rows, slow, fast, temperature, decoding_only=decoding_only)

        return {**ratio(None), **{name: ratio(t) for name, t in by_temperature.items()}}

    report = {
        "speculative_vs_assisted": both("transformers assisted", "draft model"),
        "plain_vs_generate": both("transformers generate", "plain"),
        "speculative_vs_generate": both("transformers generate", BEST),
        # Speculation cannot touch the prompt's own pass, which both arms share.
        "speculative_vs_plain": both("plain", BEST, decoding_only=True),
        "speculative_vs_plain_with_prompt": both("plain", BEST),
        "adaptive_vs_plain": both("plain", f"{BEST} adaptive", decoding_only=True),
        "useless_draft_vs_plain": both("plain", "useless draft, adaptive", decoding_only=True),
        "arms": {
            arm.name: {
                name: {
                    "ms_per_token": per_token_ms(rows, arm.name, t),
                    "mean_acceptance_length": mean_length(rows, arm.name, t),
                }
                for name, t in by_temperature.items()
            }
            for arm in arms
        },
        "setting": {
            "batch": 1,
            "tokens": tokens,
            "num_speculative_tokens": gamma,
            "dtype": str(target.dtype).removeprefix("torch."),
            "draft_model": draft.path.name,
            "best_drafter": BEST,
            "useless_drafter": none,
        },
    }
    return report, rows
