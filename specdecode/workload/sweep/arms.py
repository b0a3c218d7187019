"""What a sweep compares: servers that differ in how, and how much, they draft."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from specdecode.errors import ConfigError
from specdecode.workload.server_process import ServerCommand

NOT_RECORDED: Final = "(not recorded)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class Arm:
    """One way to serve.

    Attributes:
        name: of the arm; also the name of a folder.
        server: how to start it, or the address of one that runs already.
        draft_length: draft tokens a step; 0 decodes plainly.
        rule: verification rule; None where the engine has only one, or none is used.
        baseline: name of the plain arm that it is compared with; None for a plain arm.
        extra_body: further fields of its requests.
        engine: name of its adapter; None finds out.
        model: what its requests ask for; None takes the one that it has.

    Raises:
        ConfigError: the name is no name of a folder, or a plain arm has a baseline, or a drafting
            one has none.
    """

    name: str
    server: ServerCommand | str
    draft_length: int = 0
    rule: str | None = None
    baseline: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    engine: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"arm {self.name!r}: its name is a folder's, of letters, digits and . _ + -"
            )
        if self.draft_length < 0:
            raise ConfigError(f"arm {self.name}: draft length {self.draft_length} is below 0")
        if self.is_plain and self.baseline is not None:
            raise ConfigError(f"arm {self.name} drafts nothing, so it is a baseline and has none")
        if not self.is_plain and self.baseline is None:
            raise ConfigError(f"arm {self.name}: name the plain arm that it is compared with")

    @property
    def is_plain(self) -> bool:
        """Whether it drafts nothing."""
        return self.draft_length == 0

    def to_json(self) -> dict[str, Any]:
        """JSON-safe. Values of environment variables may be secrets and are left out."""
        server: object = self.server
        if isinstance(self.server, ServerCommand):
            env = {name: value and NOT_RECORDED for name, value in sorted(self.server.env.items())}
            server = {
                "argv": list(self.server.argv),
                "env": env,
                "ready_path": self.server.ready_path,
                "ready_s": self.server.ready_s,
                "stop_s": self.server.stop_s,
                "tells_address": self.server.tells_address,
            }
        return {
            "name": self.name,
            "server": server,
            "draft_length": self.draft_length,
            "rule": self.rule,
            "baseline": self.baseline,
            "extra_body": dict(self.extra_body),
            "engine": self.engine,
            "model": self.model,
        }


def arm_from_json(value: Mapping[str, Any]) -> Arm:
    """The arm of a recorded sweep.

    Raises:
        ConfigError: it needs environment variables, whose values are not recorded.
    """
    server = value["server"]
    if isinstance(server, Mapping):
        hidden = [name for name, given in server["env"].items() if given]
        if hidden:
            raise ConfigError(
                f"arm {value['name']} was started with {', '.join(hidden)}, whose values are not "
                "recorded: resume from Python, with the same arms"
            )
        server = ServerCommand(**server)
    return Arm(**{**value, "server": server})


def checked(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """The arms, if they can be compared.

    Raises:
        ConfigError: a name occurs twice, a baseline is missing or drafts, or nothing drafts.
    """
    by_name = {arm.name: arm for arm in arms}
    if len(by_name) < len(arms):
        names = [arm.name for arm in arms]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"two arms are called {twice}")
    for arm in arms:
        if arm.baseline is None:
            continue
        if arm.baseline not in by_name:
            raise ConfigError(f"arm {arm.name}: there is no arm {arm.baseline} to compare with")
        if not by_name[arm.baseline].is_plain:
            raise ConfigError(
                f"arm {arm.name} is compared with {arm.baseline}, which drafts; "
                "a baseline decodes plainly"
            )
    if all(arm.is_plain for arm in arms):
        raise ConfigError("no arm drafts, so there is nothing to compare")
    return tuple(arms)
