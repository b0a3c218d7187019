"""What a router can be set to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from specdecode.errors import ConfigError
from specdecode.workload.loopback import is_loopback

When = Literal["now", "idle"]

_LAST_PORT: Final = 65535
_LONGEST_ARM: Final = 64


@dataclass(frozen=True)
class Server:
    """One of the two servers behind a router.

    Attributes:
        arm: what rows call it.
        url: where it listens, without `/v1`.
        key: its own bearer token, in place of the client's credentials; None for none.
        takes_credentials: whether it gets what clients send to prove who they are. The baseline
            always does, unless it has a key of its own.

    Raises:
        ConfigError: the address is none, or the arm has no usable name.
    """

    arm: str
    url: str
    key: str | None = field(default=None, repr=False)
    takes_credentials: bool = False

    def __post_init__(self) -> None:
        if not self.arm or "/" in self.arm or len(self.arm) > _LONGEST_ARM:
            raise ConfigError(
                f"arm={self.arm!r}: give a name as the plan has it, such as plain or block, "
                "without '/'"
            )
        try:
            parts = urlsplit(self.url)
            known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            known = False
        if not known:
            raise ConfigError(
                f"the {self.arm} server's address {self.url!r} is none: "
                "write it as http://127.0.0.1:8000"
            )
        if parts.query or parts.fragment or parts.username or parts.password:
            raise ConfigError(
                f"the {self.arm} server's address has a user, query or fragment: give scheme, "
                "host and port only; keys go into the environment"
            )
        if self.key is not None and not _is_one_word(self.key):
            raise ConfigError(f"the {self.arm} server's key is empty or not one word of ASCII")

    @property
    def root(self) -> str:
        """The address that `/v1/...` is appended to."""
        return self.url.rstrip("/").removesuffix("/v1")


@dataclass(frozen=True)
class Limits:
    """How much of the traffic the candidate may be given, whatever its share is.

    Attributes:
        rps: requests a second on average, copies included; None for any number.
        concurrency: most requests at the same time; copies have a bound of their own.
        failures: failures in a row after which it gets nothing for a while.
        pause_s: how long that is; then one request tries again.

    Raises:
        ConfigError: naming the limit.
    """

    rps: float | None = None
    concurrency: int = 64
    failures: int = 5
    pause_s: float = 30.0

    def __post_init__(self) -> None:
        _more_than_nothing(rps=self.rps, pause_s=self.pause_s)
        _at_least_one(concurrency=self.concurrency, failures=self.failures)


@dataclass(frozen=True)
class RouterSettings:
    """Everything a router is started with.

    Attributes:
        baseline: answers whatever happens.
        candidate: under judgement.
        state_dir: holds the state, its history, the salt and the rows.
        token: bearer token that changes the state; None shuts that out.
        host: address to listen on; loopback unless told otherwise.
        port: 0 takes any free one.
        verdict: file of the latest verdict, for `/gate`.
        salt_file: secret of the assignment; None keeps one in the state folder.
        shadow_when: whether copies are sent at once, or when the baseline has nothing to do.
        shadow_queue: most copies that wait.
        shadow_concurrency: most copies at the same time.
        limits: of the candidate.
        bodies: share of requests whose texts are kept, redacted; 0 keeps none.
        token_ids: keep the ids of tokens in rows, where servers send them.
        ask_usage: ask for token counts in streams under judgement; clients that did not ask do not
            see them.
        max_body_bytes: largest request body of the two routes under judgement.
        connect_s: seconds to reach a server.
        first_byte_s: seconds the candidate's stream may take to begin, before the baseline is
            asked instead.
        idle_s: seconds without one byte after which a server counts as dead, the wait for a reply
            that does not stream included.
        stall_s: seconds a client may send nothing of its body, or read nothing of its reply.
        record_s: seconds an answer waits, at most, until its request is on record; as a rule it is.
        finish_s: seconds that replies under way may take when the router is told to stop.

    Raises:
        ConfigError: naming the setting.
    """

    baseline: Server
    candidate: Server
    state_dir: Path
    token: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8080
    verdict: Path | None = None
    salt_file: Path | None = None
    shadow_when: When = "now"
    shadow_queue: int = 64
    shadow_concurrency: int = 8
    limits: Limits = field(default_factory=Limits)
    bodies: float = 0.0
    token_ids: bool = False
    ask_usage: bool = True
    max_body_bytes: int = 32 * 2**20
    connect_s: float = 5.0
    first_byte_s: float = 60.0
    idle_s: float = 600.0
    stall_s: float = 60.0
    record_s: float = 1.0
    finish_s: float = 30.0

    def __post_init__(self) -> None:
        if self.baseline.arm == self.candidate.arm:
            raise ConfigError(
                f"both servers are called {self.baseline.arm!r}: rows tell them apart by "
                "--baseline-arm and --candidate-arm"
            )
        if not 0 <= self.port <= _LAST_PORT:
            raise ConfigError(f"port={self.port}: give 0 (any free one) to {_LAST_PORT}")
        if not 0 <= self.bodies <= 1:
            raise ConfigError(f"bodies={self.bodies}: give a share from 0 to 1")
        if self.shadow_when not in ("now", "idle"):
            raise ConfigError(f"shadow_when={self.shadow_when!r}: give now or idle")
        if self.token is not None and not _is_one_word(self.token):
            raise ConfigError("the token is empty or not one word of ASCII: put one into its file")
        _at_least_one(
            shadow_queue=self.shadow_queue,
            shadow_concurrency=self.shadow_concurrency,
            max_body_bytes=self.max_body_bytes,
        )
        _more_than_nothing(
            connect_s=self.connect_s,
            first_byte_s=self.first_byte_s,
            idle_s=self.idle_s,
            stall_s=self.stall_s,
            record_s=self.record_s,
            finish_s=self.finish_s,
        )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


def _is_one_word(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ConfigError(f"{name}={value}: give at least 1")


def _more_than_nothing(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{name}={value}: give more than 0")
