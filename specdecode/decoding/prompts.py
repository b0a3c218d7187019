"""Prompts as users write them, turned into token ids and checked before any compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
        return [int(i) for i in _tokenizer(model, where)(prompt)["input_ids"]]
    items = list(prompt)
    if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        return [int(i) for i in items if isinstance(i, int)]
    if all(isinstance(item, Mapping) and {"role", "content"} <= item.keys() for item in items):
        text = _tokenizer(model, where).apply_chat_template(
            [dict(item) for item in items if isinstance(item, Mapping)],
            add_generation_prompt=True,
            tokenize=False,
        )
        encoded = _tokenizer(model, where)(text, add_special_tokens=False)
        return [int(i) for i in encoded["input_ids"]]
    raise ConfigError(
        f"{where} is neither text, nor token ids, nor chat messages with 'role' and 'content'"
    )


def _tokenizer(model: LoadedModel, where: str) -> Any:
    if model.tokenizer is None:
        raise ConfigError(
            f"{where} is text, but '{model.path}' has no tokenizer: give token ids, "
            "or add the tokenizer files to the folder"
        )
    return model.tokenizer
