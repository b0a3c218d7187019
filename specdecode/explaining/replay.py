"""The same request again, with every step kept, and plainly beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specdecode.audit import audit
from specdecode.decoding import GenerationResult, SamplingParams
from specdecode.decoding.engine import Engine
from specdecode.errors import ConfigError
from specdecode.explaining.recorded import Recorded
from specdecode.models import LoadedModel
from specdecode.verification import RULES

_WARM_UP_TOKENS = 4


@dataclass(frozen=True)
class Replay:
    """A request decoded again.

    Attributes:
        result: as it was recorded, with a trace.
        plain: by plain decoding; `result` itself where nothing was drafted.
        first_difference: index of the first token that is another than the recorded one; null
            when all are equal.
        compared: whether there was a recorded reply to compare with.
        greedy_failures: of a greedy request, tokens of the recorded and the plain reply that fall
            short of the target's best by more than its numerical tolerance; null when sampled.
    """

    result: GenerationResult
    plain: GenerationResult
    first_difference: int | None
    compared: bool
    greedy_failures: int | None

    @property
    def equal(self) -> bool | None:
        """Whether the recorded tokens came out again; null without any."""
        return self.first_difference is None if self.compared else None


def decode_again(
    recorded: Recorded, model: LoadedModel, draft: str | None, num_speculative_tokens: int | None
) -> Replay:
    """Decode a recorded request with its own seed and parameters, and plainly.

    Args:
        recorded: what was asked for.
        model: the target.
        draft: what proposes tokens; null where nothing was drafted.
        num_speculative_tokens: γ.

    Raises:
        ConfigError: the record lacks what decoding needs, or names a rule that there is not.
    """
    if recorded.prompt_token_ids is None or recorded.seed is None:
        raise ConfigError(
            f"{recorded.request}: the row holds no prompt tokens or no seed, so the request cannot "
            "be decoded again; rows of `make evaluate` and of `specdecode confirm` hold both"
        )
    params = _params(recorded)
    prompt = list(recorded.prompt_token_ids)
    plain_engine = Engine.load(model)
    if not recorded.drafting:
        result = plain = _run(plain_engine, prompt, params)
    else:
        engine = _engine(recorded, model, draft, num_speculative_tokens)
        result, plain = _run(engine, prompt, params), _run(plain_engine, prompt, params)
    wanted = recorded.token_ids
    return Replay(
        result=result,
        plain=plain,
        first_difference=None if wanted is None else _difference(wanted, result.token_ids),
        compared=wanted is not None,
        greedy_failures=_failures(recorded, result, plain, model) if params.is_greedy else None,
    )


def _engine(
    recorded: Recorded, model: LoadedModel, draft: str | None, num_speculative_tokens: int | None
) -> Engine:
    rule = recorded.verification
    if rule not in RULES:
        raise ConfigError(
            f"{recorded.request}: the arm {rule!r} is no verification rule; say with "
            f"--verification which it was: {', '.join(RULES)}"
        )
    if draft is None or num_speculative_tokens is None:
        raise ConfigError(
            f"{recorded.request}: the record does not say what drafted, or how many tokens a step; "
            "give --draft and --num-speculative-tokens"
        )
    return Engine.load(
        model, draft, verification=rule, num_speculative_tokens=num_speculative_tokens
    )


def _params(recorded: Recorded) -> SamplingParams:
    try:
        return SamplingParams(**{**_known(recorded.sampling), "seed": recorded.seed})
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{recorded.request}: its sampling is not usable: {error}") from error


def _known(sampling: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sampling.items() if value is not None}


def _run(engine: Engine, prompt: list[int], params: SamplingParams) -> GenerationResult:
    short = params.model_copy(update={"max_tokens": min(_WARM_UP_TOKENS, params.max_tokens)})
    engine.generate([prompt], short)  # the first call packs weights, which is not decoding
    return engine.generate([prompt], params, trace=True)[0]


def _difference(one: tuple[int, ...], other: tuple[int, ...]) -> int | None:
    for index, (ours, theirs) in enumerate(zip(one, other, strict=False)):
        if ours != theirs:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))


def _failures(
    recorded: Recorded, result: GenerationResult, plain: GenerationResult, model: LoadedModel
) -> int | None:
    replies = [recorded.token_ids or result.token_ids, plain.token_ids]
    rows = [
        {
            "prompt_token_ids": recorded.prompt_token_ids,
            "output_token_ids": reply,
            "sampling": dict(recorded.sampling),
            "order_index": index,  # equal replies are two observations
        }
        for index, reply in enumerate(replies)
    ]
    judged = audit(rows, model).greedy
    return None if judged is None else int(judged["failures"])


Spell = Callable[[int], str]
"""A token id as text."""


def speller(tokenizer: Any) -> Spell:
    """Token ids as text; as numbers in angle brackets without a tokenizer."""
    if tokenizer is None:
        return lambda token: f"<{token}>"
    return lambda token: str(tokenizer.decode([token]))
