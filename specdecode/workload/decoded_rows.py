"""Replies of this engine as rows that the audit reads, with every step where that is asked for.

An evaluation keeps no steps: to keep them takes time inside what is measured there. What steps are
for, whether the draft is what it says, needs no times. So prompts are decoded here for the rows
alone, and may be decoded in batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from specdecode.decoding import Engine, GenerationResult, SamplingParams
from specdecode.decoding.prompts import Prompt, encode_prompt

PLAIN = "plain"
"""Arm of an engine without a draft; the audit takes it as control."""

_TOGETHER = 8


@dataclass(frozen=True)
class Asked:
    """A prompt, and what its row says of it.

    Attributes:
        prompt: text, chat messages or token ids.
        told: fields of its row, such as prompt_id, category, difficulty and language.
    """

    prompt: Prompt
    told: Mapping[str, str] = field(default_factory=dict)


def decoded_rows(
    engine: Engine, asked: Sequence[Asked], params: SamplingParams, *, trace: bool = False
) -> Iterator[dict[str, Any]]:
    """Decodes prompts, a few together, and gives one row a reply, in order.

    Args:
        engine: any, a planted one (`specdecode.audit.faults.plant`) included.
        asked: the prompts.
        params: for all of them. Without a seed each reply draws its own; either is recorded. One
            seed for all is sound, too: coins are keyed by the prompt as well.
        trace: keep the steps; an engine without a draft has none to keep.

    Yields:
        JSON-safe mappings with the fields of docs/audit.md: arm ("plain" without a draft, else the
        verification rule), prompt and output token ids, sampling, seed, order_index, drafted,
        accepted, verification, trace, and draft_failure (why drafting ended early, or null).

    Raises:
        ConfigError, PromptTooLongError: before any compute, naming the prompt.
        NumericalError, OutOfMemoryError, EngineError: see `Engine.generate`.
    """
    prompts = [
        encode_prompt(one.prompt, engine.target, f"prompt {one.told.get('prompt_id', index)}")
        for index, one in enumerate(asked)
    ]
    order = 0
    for start in range(0, len(prompts), _TOGETHER):
        results = engine.generate(prompts[start : start + _TOGETHER], params, trace=trace)
        for place, result in enumerate(results):
            told = asked[start + place // params.n].told
            yield {**told, **_row(engine, result, params), "order_index": order}
            order += 1


def _row(engine: Engine, result: GenerationResult, params: SamplingParams) -> dict[str, Any]:
    drafting = engine.drafter is not None
    # `n` and `logprobs` ask for more replies or numbers; how this one was drawn they do not change.
    own = params.model_copy(update={"seed": result.seed, "n": 1, "logprobs": 0})
    steps = None if result.trace is None or not drafting else [asdict(s) for s in result.trace]
    return {
        "arm": engine.verification if drafting else PLAIN,
        "prompt_token_ids": list(result.prompt_token_ids),
        "output_token_ids": list(result.token_ids),
        "finish_reason": result.finish_reason,
        "sampling": own.model_dump(mode="json"),
        "seed": result.seed,
        "drafted": result.acceptance.drafted,
        "accepted": result.acceptance.accepted,
        "verification": engine.verification if drafting else None,
        "draft_failure": result.draft_failure,
        "trace": steps,
    }
