"""What a call asks for, checked and turned into requests before any compute."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from specdecode.decoding.params import SamplingParams
from specdecode.decoding.prompts import Prompt, encode_prompt
from specdecode.decoding.request import Request
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel


def make_requests(
    model: LoadedModel,
    prompts: Sequence[Prompt],
    params: SamplingParams | Sequence[SamplingParams] | None,
) -> list[Request]:
    """One request a reply, in the order of the prompts.

    Args:
        model: the target, whose tokenizer and limits apply.
        prompts: what to reply to.
        params: for all, or one each; None for the defaults.

    Raises:
        ConfigError, PromptTooLongError: naming the prompt.
    """
    if isinstance(prompts, str) or not isinstance(prompts, Sequence):
        raise ConfigError(f"prompts is {_kind(prompts)}: give a list of prompts")
    if params is None or isinstance(params, SamplingParams):
        each = [params or SamplingParams()] * len(prompts)
    elif isinstance(params, Sequence) and all(isinstance(p, SamplingParams) for p in params):
        each = list(params)
    else:
        raise ConfigError("params: give one SamplingParams, or a list with one for each prompt")
    if len(each) != len(prompts):
        raise ConfigError(f"{len(prompts)} prompts but {len(each)} sampling parameters")
    return [
        request
        for index, (prompt, p) in enumerate(zip(prompts, each, strict=True))
        for request in _replies(model, prompt, p, f"prompt {index}")
    ]


def _replies(
    model: LoadedModel, prompt: Prompt, params: SamplingParams, where: str
) -> list[Request]:
    """The `n` requests of one prompt, which differ in their `sample_index` alone."""
    ids = encode_prompt(prompt, model, where)
    if params.stop and model.tokenizer is None:
        raise ConfigError(f"{where} has stop strings, but the target has no tokenizer")
    outside = [i for i in params.logit_bias or {} if not 0 <= i < model.vocab_size]
    if outside:
        raise ConfigError(
            f"{where}: logit_bias names token {outside[0]}, outside the vocabulary "
            f"0..{model.vocab_size - 1}"
        )
    seed = secrets.randbits(63) if params.seed is None else params.seed
    return [
        Request(
            prompt=ids,
            params=params,
            seed=seed,
            eos_token_ids=model.eos_token_ids,
            tokenizer=model.tokenizer,
            limit=min(params.max_tokens, model.max_context - len(ids)),
            sample_index=index,
        )
        for index in range(params.n)
    ]


def _kind(value: object) -> str:
    return "one text" if isinstance(value, str) else f"of type {type(value).__name__}"
