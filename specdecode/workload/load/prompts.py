"""Prompts that were written by someone: a text, or chat messages."""

from __future__ import annotations

import json
from dataclasses import dataclass

from specdecode.workload.load.request import Messages
from specdecode.workload.text import sha256


@dataclass(frozen=True)
class WrittenPrompt:
    """A user turn and perhaps a system message."""

    user: str
    system: str | None = None

    @property
    def identity(self) -> str:
        """See `request.Prompt`."""
        return sha256(json.dumps([self.system, self.user]))

    def text(self) -> str:
        """System message and user turn, as the completions API has no roles."""
        return self.user if self.system is None else f"{self.system}\n\n{self.user}"

    def messages(self) -> Messages:
        """See `request.Prompt`."""
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*system, {"role": "user", "content": self.user}]

    def token_ids(self) -> list[int] | None:
        """None: the server's tokenizer makes them."""
        return None
