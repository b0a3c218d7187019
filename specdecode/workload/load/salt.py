"""Repeated prompts: refused, salted or allowed.

A server with a prefix cache answers a prompt it has seen without computing it again, so a load test
that repeats prompts measures the cache. A salt is a short text at the very beginning of a prompt:
every block of it then differs from all others. What a chat template puts before it stays shared.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from specdecode.workload.load.request import Messages, Prompt
from specdecode.workload.split import seeded_hash

Repeats = Literal["refuse", "salt", "allow"]

SALT_IDS = 8


@dataclass(frozen=True)
class SaltedPrompt:
    """A prompt with something before it that no other prompt begins with."""

    prompt: Prompt
    salt: str

    @property
    def identity(self) -> str:
        """See `request.Prompt`."""
        return f"{self.salt}/{self.prompt.identity}"

    def text(self) -> str:
        """The salt in brackets, then the prompt."""
        return f"[{self.salt}] {self.prompt.text()}"

    def messages(self) -> Messages:
        """The salt stands in the first message, be it a system message or not."""
        first, *others = self.prompt.messages()
        return [{**first, "content": f"[{self.salt}] {first['content']}"}, *others]

    def token_ids(self) -> list[int] | None:
        """Ids of the prompt itself in a drawn order, then the prompt: they are valid ids."""
        ids = self.prompt.token_ids()
        if ids is None:
            return None
        draw = random.Random(self.salt)  # noqa: S311 - a salt for caches, not a secret
        return draw.choices(ids, k=SALT_IDS) + ids


def salt_for(seed: int, *names: object) -> str:
    """Ten hexadecimal digits; the same seed and names give the same."""
    return f"{seeded_hash('salt', seed, *names) >> 216:010x}"
