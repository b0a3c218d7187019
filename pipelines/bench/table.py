"""Rule x drafter x γ x temperature: what each combination is worth, block against token.

Wall-clock is measured with each rule. Block efficiency is compared on the same draft blocks: given
a block and its laws, the expected number of kept tokens is known exactly for either rule, so
nothing but the choice of blocks is left to chance (Rao and Blackwell):

    token   E[τ | X^γ] = Σ_ℓ Π_{i ≤ ℓ} min(1, p(X_i) / q(X_i))
    block   E[τ | X^γ] = Σ_ℓ p_ℓ(X^ℓ),   p_ℓ the clipped running ratio      (arXiv 2403.10444)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.bench.arms import Arm, EngineArm
from pipelines.bench.turns import BenchPrompt, Row, as_ratio, mean_length, speed_ratio, take_turns
from pipelines.console import say
from specdecode import Engine, SamplingParams
from specdecode.decoding.trace import StepTrace
from specdecode.models import LoadedModel
from specdecode.statistics.bootstrap import paired_ratio_interval

RULES = ("token", "block")
GAMMAS = (1, 4, 8)
TEMPERATURES = (0.0, 1.0)
HEADLINE = (8, 1.0)  # γ and temperature, of the first draft; chosen before anything was measured
_SEED = 11

# Σ of block over token in percent, for the reader to set beside ours.
PUBLISHED = {
    "Sun et al., ICLR 2025 (PaLM-2-S, γ 8): block efficiency": 8.30,
    "Sun et al., ICLR 2025 (PaLM-2-S, γ 8): wall-clock": 6.49,
    "arXiv 2505.12398, chain column (Llama-68M to Llama2-7B, T 1): accepted length": 5.7,
    "arXiv 2505.12398, chain column (Llama-3.2-1B to 3.1-8B, T 1): accepted length": 2.8,
}


def table(
    target: LoadedModel, drafts: dict[str, str], prompts: Sequence[BenchPrompt], tokens: int
) -> tuple[dict[str, Any], list[Row]]:
    """Measure every combination.

    Args:
        target: decoded by all.
        drafts: name in the table -> drafter spec.
        prompts: the same for every cell; wall-clock uses the first third of them.
        tokens: length of each reply.

    Returns:
        the `block_efficiency` part of the report, and its rows.
    """
    cells: list[Row] = []
    rows: list[Row] = []
    for name, spec in drafts.items():
        for gamma in GAMMAS:
            engines = {
                rule: Engine.load(target, spec, verification=rule, num_speculative_tokens=gamma)
                for rule in RULES
            }
            arms: list[Arm] = [EngineArm("plain", Engine.load(target))]
            arms += [EngineArm(rule, engine) for rule, engine in engines.items()]
            timed = prompts[: max(2, len(prompts) // 3)]
            found = take_turns(f"table {name} γ {gamma}", arms, timed, TEMPERATURES, tokens)
            for temperature in TEMPERATURES:
                # Where both rules are the same by theory, a few prompts are enough to see it.
                several = prompts if _why(name, gamma, temperature, None) is None else timed
                expected = _on_the_same_blocks(engines["block"], several, temperature, tokens)
                cells.append(_cell(name, gamma, temperature, found, expected))
            rows += [{**row, "section": "table", "drafter": name, "gamma": gamma} for row in found]
        say(f"table: {name} done")
    wanted = (next(iter(drafts)), *HEADLINE)
    headline = next(
        (c for c in cells if (c["drafter"], c["gamma"], c["temperature"]) == wanted), cells[-1]
    )
    return {
        "block_vs_token": headline["block_vs_token"],
        "where": {k: headline[k] for k in ("drafter", "gamma", "temperature")},
        "table": cells,
        "published_percent": PUBLISHED,
    }, rows


def _cell(name: str, gamma: int, temperature: float, rows: list[Row], expected: list[Row]) -> Row:
    interval = paired_ratio_interval(
        [r["block"] for r in expected], [r["token"] for r in expected], seed=_SEED
    )
    ratio = as_ratio(interval) if interval is not None else None
    return {
        "drafter": name,
        "gamma": gamma,
        "temperature": temperature,
        "efficiency": {rule: mean_length(rows, rule, temperature) for rule in RULES},
        "block_vs_token": ratio,
        "wall_clock_block_vs_token": speed_ratio(
            rows, "token", "block", temperature, decoding_only=True
        ),
        "speedup": {
            rule: speed_ratio(rows, "plain", rule, temperature, decoding_only=True)
            for rule in RULES
        },
        "why_no_gain": _why(name, gamma, temperature, ratio),
    }


def _why(name: str, gamma: int, temperature: float, ratio: Row | None) -> str | None:
    """The reason where theory leaves block verification nothing to gain."""
    if temperature == 0:
        return "greedy: the target's law is one-hot, so both rules keep the same tokens"
    if gamma == 1:
        return "γ 1: a block of one token is a token"
    if name in ("prompt-lookup", "suffix"):
        return "one-hot draft law: the expected length is the same"
    if ratio is not None and ratio["low"] <= 1.005:
        return "the draft is nearly the target, or nearly useless: little is left to keep or lose"
    return None


def _on_the_same_blocks(
    engine: Engine, prompts: Sequence[BenchPrompt], temperature: float, tokens: int
) -> list[Row]:
    """Expected tokens per prompt under both rules, bonus included, on the blocks of one run."""
    found = []
    for index, prompt in enumerate(prompts):
        params = SamplingParams(
            max_tokens=tokens, temperature=temperature, seed=index, ignore_eos=True
        )
        trace = engine.generate([prompt.ids], params, trace=True)[0].trace or ()
        steps = [step for step in trace if step.draft_tokens]
        if steps:
            both = [_expected(step) for step in steps]
            found.append({"token": sum(b[0] for b in both), "block": sum(b[1] for b in both)})
    return found


def _expected(step: StepTrace) -> tuple[float, float]:
    """1 + E[τ | block] of token and of block verification."""
    token, block = 1.0, 1.0
    reach, ratio = 1.0, 1.0
    for p, q in zip(step.target_probs, step.draft_probs, strict=True):
        reach *= min(1.0, p / q)
        ratio = min(1.0, ratio * p / q)
        token += reach
        block += ratio
    return token, block
