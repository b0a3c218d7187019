"""What a server can be set to."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Final

from specdecode.errors import ConfigError
from specdecode.serving.lengths import DraftLengths
from specdecode.workload.loopback import is_loopback

_LAST_PORT: Final = 65535


@dataclass(frozen=True)
class ServerSettings:
    """Limits and names of a server.

    Attributes:
        model_name: what clients ask for.
        host: address to listen on; loopback unless told otherwise.
        port: 0 takes any free one.
        slots: most replies decoded together.
        queue: most replies that wait for a slot; further ones get 429.
        prefill_chunk: most prompt tokens of newcomers that are read between two steps.
        max_body_bytes: largest request body.
        max_prompt_tokens: longest prompt; None for what the model's context leaves.
        max_tokens: longest reply that a request may ask for.
        max_replies: most replies one request may ask for (prompts times `n`).
        deadline_s: seconds after which a request is given up, queue included; None for never.
        stall_s: seconds a client may send nothing of its body, or leave data unread, before it
            counts as gone.
        api_key: bearer token of /v1 and /server_info; None leaves them open.
        guard: whether slots go on without drafts where drafts do not pay.
        draft_lengths: draft tokens a step by the number of replies decoded together; None for the
            engine's own at any load.

    Raises:
        ConfigError: naming the setting.
    """

    model_name: str
    host: str = "127.0.0.1"
    port: int = 8000
    slots: int = 8
    queue: int = 64
    prefill_chunk: int = 256
    max_body_bytes: int = 2 * 2**20
    max_prompt_tokens: int | None = None
    max_tokens: int = 4096
    max_replies: int = 16
    deadline_s: float | None = 600.0
    stall_s: float = 60.0
    api_key: str | None = None
    guard: bool = True
    draft_lengths: DraftLengths | None = None

    def __post_init__(self) -> None:
        least = {
            "slots": 1,
            "queue": 1,
            "prefill_chunk": 1,
            "max_body_bytes": 1,
            "max_tokens": 1,
            "max_replies": 1,
            "port": 0,
        }
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ConfigError(f"{name}={getattr(self, name)}: give at least {bound}")
        if self.port > _LAST_PORT:
            raise ConfigError(f"port={self.port}: give at most {_LAST_PORT}; 0 takes a free one")
        for name in ("max_prompt_tokens", "deadline_s", "stall_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name}={value}: give a number above 0")
        if self.api_key is not None and not self.api_key.strip():
            raise ConfigError("the API key is empty: give one, or none at all")

    def in_force(self) -> dict[str, Any]:
        """For people and for the record, JSON-safe: all but the key and where it listens."""
        hidden = ("model_name", "host", "port", "api_key", "draft_lengths")
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
        lengths = None if self.draft_lengths is None else self.draft_lengths.to_json()
        return told | {"draft_lengths": lengths}

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    def context(self, window: int) -> int:
        """Most tokens of a prompt and its reply, where the model's window has so many."""
        return min(window, (self.max_prompt_tokens or window) + self.max_tokens)
