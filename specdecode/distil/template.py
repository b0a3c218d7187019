"""A chat template taken apart around the user's turn, so that the target can write that turn.

A model that was tuned on conversations continues "user:" with what users ask (Xu et al. 2024,
"Magpie", arXiv 2406.08464).
"""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import TemplateError

from specdecode.errors import ConfigError
from specdecode.models import LoadedModel

_MARK = "\ue000user\ue000"  # private-use characters: no template has them


@dataclass(frozen=True)
class Turns:
    """The template's own tokens.

    Attributes:
        before: up to where the user's turn begins.
        between: from its end to where the reply begins.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]


def turns_of(model: LoadedModel, system: str | None = None) -> Turns:
    """Take the model's chat template apart.

    Args:
        model: with a tokenizer.
        system: system message; None for the template's own.

    Raises:
        ConfigError: there is no template, or none that can be taken apart.
    """
    advice = "distil a target with a tokenizer and a chat template"
    if model.tokenizer is None or not model.tokenizer.chat_template:
        raise ConfigError(
            f"'{model.path}' has no chat template, so it cannot write conversations: {advice}"
        )
    messages = [{"role": "user", "content": _MARK}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    try:
        text = model.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False
        )
    except (ValueError, TypeError, TemplateError) as error:
        raise ConfigError(
            f"the chat template of '{model.path}' fails ({error}): {advice}"
        ) from error
    before, mark, between = text.partition(_MARK)
    if not mark or _MARK in between:
        raise ConfigError(
            f"the chat template of '{model.path}' does not show a user's turn exactly once: "
            f"{advice}"
        )
    found = Turns(encoded(model, before), encoded(model, between))
    if not found.before:
        raise ConfigError(
            f"the chat template of '{model.path}' has nothing before a user's turn, so there is "
            f"nothing for the target to continue: {advice}"
        )
    return found


def encoded(model: LoadedModel, text: str) -> tuple[int, ...]:
    """Token ids of a piece of text, nothing added."""
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    return tuple(int(i) for i in ids)
