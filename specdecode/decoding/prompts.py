"""Prompts as users write them, turned into token ids and checked before any compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from specdecode.errors import ConfigError, PromptTooLongError
from specdecode.models import LoadedModel

Message = Mapping[str, str]
Prompt = str | Sequence[int] | Sequence[Message]


def encode_prompt(prompt: Prompt, model: LoadedModel, where: str = "the prompt") -> list[int]:
    """Token ids of a prompt.

    Args:
        prompt: text (tokenised as it is), token ids, or chat messages (`role`, `content`), which
            go through the model's chat template with the assistant's turn opened.
        model: whose tokenizer and limits apply.
        where: names the prompt in errors.

    Raises:
        ConfigError: empty, of a wrong type, outside the vocabulary, or no tokenizer for text.
        PromptTooLongError: no room for a reply in the context window.
    """
    ids = _token_ids(prompt, model, where)
    if not ids:
        raise ConfigError(f"{where} is empty: give at least one token")
    outside = [i for i in ids if not 0 <= i < model.vocab_size]
    if outside:
        raise ConfigError(
            f"{where} has token id {outside[0]}, outside the vocabulary 0..{model.vocab_size - 1}"
        )
    if len(ids) >= model.max_context:
        raise PromptTooLongError(
            f"{where} has {len(ids)} tokens, the model's context window {model.max_context}: "
            "shorten it so that at least one token of reply fits"
        )
    return ids


def _token_ids(prompt: Prompt, model: LoadedModel, where: str) -> list[int]:
    if isinstance(prompt, str):
        return _encoded(prompt, model, where, add_special_tokens=True)
    # Bytes are a sequence of whole numbers, too, and these would pass for token ids.
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray | memoryview):
        raise ConfigError(
            f"{where} is of type {type(prompt).__name__}: a prompt is a text, a list of token ids "
            "or a list of chat messages, and several prompts are a list of those"
        )
    items = list(prompt)
    if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        return [int(i) for i in items if isinstance(i, int)]
    if all(isinstance(item, Mapping) and {"role", "content"} <= item.keys() for item in items):
        messages = [dict(item) for item in items if isinstance(item, Mapping)]
        try:
            text = _tokenizer(model, where).apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False
            )
        except (ValueError, TypeError, TemplateError) as error:
            raise ConfigError(
                f"{where}: the chat template of '{model.path}' cannot render these messages: "
                f"{error}; use a model with a chat template, or give text"
            ) from error
        return _encoded(text, model, where, add_special_tokens=False)
    raise ConfigError(
        f"{where} is neither text, nor token ids, nor chat messages with 'role' and 'content'"
    )


def _encoded(text: str, model: LoadedModel, where: str, *, add_special_tokens: bool) -> list[int]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{where} is not valid Unicode text: {error}") from error
    encoded = _tokenizer(model, where)(text, add_special_tokens=add_special_tokens)
    return [int(i) for i in encoded["input_ids"]]


def _tokenizer(model: LoadedModel, where: str) -> Any:
    if model.tokenizer is None:
        raise ConfigError(
            f"{where} is text, but '{model.path}' has no tokenizer: give token ids, "
            "or add the tokenizer files to the folder"
        )
    return model.tokenizer
