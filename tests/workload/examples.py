"""Small prompts, a whole compiled set, and a tokenizer that needs no model."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa

from specdecode.workload import Prompt
from specdecode.workload.compile import compile_prompts

CATEGORIES = ("chat", "translate", "arithmetic")
LANGUAGES = ("en", "de")
DIFFICULTIES = ("normal", "hard", "adversarial")


class ByteTokenizer:
    """One token a byte, with a chat template when asked for."""

    def __init__(self, *, chat: bool = True) -> None:
        self.chat_template = "chat" if chat else None

    def apply_chat_template(self, conversation: Any, **options: Any) -> str:
        assert options == {"tokenize": False, "add_generation_prompt": True}
        turns = [f"<{m['role']}>{m['content']}</>" for m in conversation]
        return "".join([*turns, "<assistant>"])

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        assert options in ({}, {"add_special_tokens": False})
        return {"input_ids": list(text.encode("utf-8"))}


def scrambled(seed: object, count: int = 6) -> str:
    """Words that no other seed shares."""
    return " ".join(hashlib.sha256(f"{seed} {i}".encode()).hexdigest()[:8] for i in range(count))


def prompt(name: str, text: str | None = None, **fields: Any) -> Prompt:
    return Prompt.model_validate(
        {
            "question_id": name,
            "category": "chat",
            "turns": [scrambled(name) if text is None else text],
            **fields,
        }
    )


def prompt_set(per_stratum: int = 4) -> list[Prompt]:
    """Every category x language x difficulty, each with a checker that its reference passes."""
    return [
        prompt(
            f"{category}-{language}-{difficulty}-{i}",
            category=category,
            language=language,
            difficulty=difficulty,
            reference=["yes"],
            checker={"type": "exact", "answers": ["yes"]},
        )
        for category in CATEGORIES
        for language in LANGUAGES
        for difficulty in DIFFICULTIES
        for i in range(per_stratum)
    ]


def compiled(prompts: list[Prompt] | None = None, **settings: Any) -> pa.Table:
    defaults: dict[str, Any] = {
        "context_tokens": 2048,
        "max_tokens": 64,
        "split_seed": 1,
        "order_seed": 2,
        "checkable_categories": ["arithmetic"],
    }
    return compile_prompts(
        prompt_set() if prompts is None else prompts, ByteTokenizer(), **{**defaults, **settings}
    )
