"""What a client asks for, in OpenAI's words, checked and turned into ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdecode.decoding import SamplingParams
from specdecode.decoding.prompts import Prompt
from specdecode.errors import ConfigError
from specdecode.serving.errors import ApiError
from specdecode.serving.settings import ServerSettings

_COMPLETION_TOKENS = 16  # OpenAI's default for completions; chat goes on to the limit
_LONGEST_ID = 18  # digits of a token id; Python refuses to read thousands of them

# Each item costs: a mistake in it an error, a stop string a search in every step.
_MOST_ITEMS = {"stop": 32, "logit_bias": 4096, "messages": 4096}

# Fields that would change what comes out. To pass over them would answer another question.
_NOT_SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "tools": (None, []),
    "functions": (None, []),
    "tool_choice": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "structured_outputs": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "guided_choice": (None,),
    "guided_grammar": (None,),
    "suffix": (None, ""),
    "echo": (None, False),
    "use_beam_search": (None, False),
    "prompt_logprobs": (None,),
    "stop_token_ids": (None, []),
    "allowed_token_ids": (None, []),
    "bad_words": (None, []),
    "min_tokens": (None, 0),
    "include_stop_str_in_output": (None, False),
    "add_generation_prompt": (None, True),
    "continue_final_message": (None, False),
    "audio": (None,),
    "modalities": (None, ["text"]),
}


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _Body(BaseModel):
    """Fields that both routes have; ranges as OpenAI and vLLM document them."""

    model_config = ConfigDict(extra="allow", strict=True)

    model: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    n: int = Field(1, ge=1)
    stream: bool = False
    stream_options: _StreamOptions | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=-1)
    min_p: float = Field(0.0, ge=0, le=1)
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    repetition_penalty: float = Field(1.0, ge=0.01, le=100)
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    ignore_eos: bool = False
    return_token_ids: bool = False


class _Completion(_Body):
    prompt: Any  # see `_prompts`
    logprobs: int | None = Field(None, ge=0, le=20)
    best_of: int | None = None


class _Chat(_Body):
    messages: list[dict[str, Any]] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int | None = Field(None, ge=0, le=20)


@dataclass(frozen=True)
class Ask:
    """One request.

    Attributes:
        is_chat: which route it came by.
        prompts: each gets `params.n` replies.
        params: how they are drawn.
        logprobs: log-probabilities of how many of the likeliest tokens to show; None for none.
        stream: in pieces.
        include_usage: with a last piece that has the usage.
        return_token_ids: show token ids, too.
    """

    is_chat: bool
    prompts: list[Prompt]
    params: SamplingParams
    logprobs: int | None
    stream: bool
    include_usage: bool
    return_token_ids: bool

    @classmethod
    def read(cls, body: bytes, settings: ServerSettings, *, is_chat: bool) -> Self:
        """Parse and check a body.

        Raises:
            ApiError: 400 or 404, naming the field.
        """
        fields = _json(body)
        for name, harmless in _NOT_SUPPORTED.items():
            if name in fields and fields[name] not in harmless:
                raise ApiError(400, f"'{name}' is not supported by this server", param=name)
        for name, most in _MOST_ITEMS.items():
            value = fields.get(name)
            if isinstance(value, list | dict) and len(value) > most:
                raise ApiError(400, f"'{name}' has more than {most} items", param=name)
        # null means "not given" everywhere in OpenAI's API.
        given = {name: value for name, value in fields.items() if value is not None}
        try:
            asked = (_Chat if is_chat else _Completion).model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            raise ApiError(400, f"'{name}': {first['msg']}", param=name) from error
        if asked.model not in (None, settings.model_name):
            raise ApiError(
                404, f"this server has '{settings.model_name}', not '{asked.model}'", param="model"
            )
        if isinstance(asked, _Chat):
            prompts: list[Prompt] = [[_message(m) for m in asked.messages]]
            shown = (asked.top_logprobs or 0) if asked.logprobs else None
            wanted = asked.max_completion_tokens or asked.max_tokens or settings.max_tokens
        else:
            if asked.best_of not in (None, asked.n):
                raise ApiError(400, "'best_of' other than n is not supported", param="best_of")
            prompts = _prompts(asked.prompt)
            shown = asked.logprobs
            wanted = asked.max_tokens or min(_COMPLETION_TOKENS, settings.max_tokens)
        _check_size(asked.n * len(prompts), wanted, settings)
        return cls(
            is_chat=is_chat,
            prompts=prompts,
            params=_params(asked, wanted, shown),
            logprobs=shown,
            stream=asked.stream,
            include_usage=asked.stream_options is not None and asked.stream_options.include_usage,
            return_token_ids=asked.return_token_ids,
        )


def _json(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
        json.dumps(fields, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ApiError(400, "the body is no JSON object")
    return fields


def _check_size(replies: int, wanted: int, settings: ServerSettings) -> None:
    if replies > settings.max_replies:
        raise ApiError(
            400, f"{replies} replies asked for; at most {settings.max_replies}", param="n"
        )
    if wanted > settings.max_tokens:
        raise ApiError(
            400, f"max_tokens is {wanted}; at most {settings.max_tokens}", param="max_tokens"
        )


def _params(asked: _Body, max_tokens: int, shown: int | None) -> SamplingParams:
    try:
        return SamplingParams(
            max_tokens=max_tokens,
            n=asked.n,
            temperature=asked.temperature,
            top_p=asked.top_p,
            top_k=max(0, asked.top_k),  # vLLM writes "all" as -1
            min_p=asked.min_p,
            presence_penalty=asked.presence_penalty,
            frequency_penalty=asked.frequency_penalty,
            repetition_penalty=asked.repetition_penalty,
            logit_bias={_token(t): bias for t, bias in (asked.logit_bias or {}).items()} or None,
            stop=(asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ()),
            seed=asked.seed,
            ignore_eos=asked.ignore_eos,
            logprobs=0 if shown is None else max(1, shown),
        )
    except ConfigError as error:
        raise ApiError(400, str(error)) from error


def _token(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_ID):
        raise ApiError(400, f"'logit_bias': {text[:40]!r} is no token id", param="logit_bias")
    return int(text)


def _prompts(prompt: object) -> list[Prompt]:
    """One text or list of token ids, or a list of either. Stops at the first mistake."""
    if isinstance(prompt, str) or (prompt and _are_ids(prompt)):
        return [prompt]
    if isinstance(prompt, list) and prompt:
        for is_one in (lambda item: isinstance(item, str), _are_ids):
            if all(map(is_one, prompt)):
                return list(prompt)
    raise ApiError(
        400, "'prompt' has to be a text or a list of token ids, or a list of those", param="prompt"
    )


def _are_ids(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _message(message: Mapping[str, Any]) -> dict[str, str]:
    """Role and text; content may come in parts, all of which must be text."""
    role, content = message.get("role"), message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        if not all(isinstance(part, str) for part in parts):
            raise ApiError(400, "only text can be read, no pictures or sound", param="messages")
        content = "".join(str(part) for part in parts)
    if not isinstance(role, str) or not isinstance(content, str):
        raise ApiError(400, "each message needs a 'role' and text 'content'", param="messages")
    return {"role": role, "content": content}
