"""The ways from a client to the server, and how the router is set for each of its own."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

from pipelines.route_bench.servers import LITELLM, TOKEN, Servers
from specdecode.errors import ConfigError, EngineError
from specdecode.workload.server_process import ServerProcess

DIRECT: Final = "direct"
AGAIN: Final = "direct-again"
MANIFEST: Final = hashlib.sha256(b"latency of the router").hexdigest()
_PATIENCE_S: Final = 60.0
_REST_S: Final = 0.2
"""Longer than any reply of the upstream takes."""


@dataclass(frozen=True)
class Arm:
    """One way.

    Attributes:
        name: in reports.
        shown: for people.
        mode: of the router; None does not go through it.
        share: of the mode.
    """

    name: str
    shown: str
    mode: str | None = None
    share: float = 0.0


ARMS: Final[dict[str, Arm]] = {
    arm.name: arm
    for arm in (
        Arm(DIRECT, "the server itself"),
        Arm(AGAIN, "the server itself, once more"),
        Arm("router-off", "router, plain proxying", "off"),
        Arm("router-shadow", "router, shadow of every request", "shadow", 1.0),
        Arm("router-canary", "router, canary of half", "canary", 0.5),
        Arm(LITELLM, "LiteLLM's proxy"),
    )
}
"""In the order of the table. The server itself is there twice: their difference is the noise."""

ROUTED: Final = tuple(name for name, arm in ARMS.items() if arm.mode is not None)


def chosen(names: Sequence[str] | None) -> list[Arm]:
    """The arms to measure; the server itself is always one.

    Args:
        names: of `ARMS`; None is all of them.

    Raises:
        ConfigError: there is no such arm.
    """
    if unknown := sorted(set(names or ()) - set(ARMS)):
        raise ConfigError(f"no arm {', '.join(unknown)}; there are: {', '.join(ARMS)}")
    return [arm for arm in ARMS.values() if names is None or arm.name in (DIRECT, *names)]


def process_of(arm: Arm, servers: Servers) -> ServerProcess | None:
    """The proxy of an arm; None for the server itself."""
    if arm.mode is not None:
        return servers.router
    return servers.litellm if arm.name == LITELLM else None


def url_of(arm: Arm, servers: Servers) -> str:
    """Where its requests go."""
    return (process_of(arm, servers) or servers.baseline).url


def set_router(url: str, arm: Arm) -> None:
    """Put the router into the mode of an arm.

    Raises:
        EngineError: it does not take the change, or does not show it.
    """
    wanted = {
        "mode": arm.mode,
        "share": arm.share,
        "manifest_sha256": None if arm.mode == "off" else MANIFEST,
    }
    with httpx.Client(base_url=url, timeout=_PATIENCE_S, trust_env=False) as client:
        try:
            state = _state(client.get("/rollout"))
            if {name: state.get(name) for name in wanted} == wanted:
                return
            change = {
                **wanted,
                "expected_version": state["version"],
                "changed_by": "bench",
                "reason": f"measures {arm.name}",
            }
            headers = {"authorization": f"Bearer {TOKEN}"}
            found = _state(client.put("/rollout", json=change, headers=headers))
        except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
            raise EngineError(f"{url}: the router's state cannot be set: {error}") from error
    if {name: found.get(name) for name in wanted} != wanted:
        raise EngineError(f"{url}: the router's state is {found}, not {wanted}")


def _state(reply: httpx.Response) -> dict[str, Any]:
    if reply.status_code != 200:
        raise ValueError(f"HTTP {reply.status_code}: {reply.text[:300]}")
    return dict(reply.json()["state"])


def settled(upstream: ServerProcess, router: ServerProcess | None = None) -> int:
    """Requests that an upstream has answered, once copies that were on their way have arrived.

    Args:
        upstream: that is asked.
        router: whose copies are waited for, however long it keeps them; None if there is none.

    Raises:
        EngineError: it does not tell, or does not come to rest.
    """
    before, end = None, time.monotonic() + _PATIENCE_S
    with httpx.Client(timeout=_PATIENCE_S, trust_env=False) as client:
        while time.monotonic() < end:
            busy = router is not None and _copies(client, router) > 0
            try:
                counts = client.get(f"{upstream.url}/served").json()
                now = int(counts["json"]) + int(counts["stream"])
            except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
                raise EngineError(f"{upstream.url}: its counts cannot be read: {error}") from error
            if now == before and not busy:
                return now
            before = now
            time.sleep(_REST_S)
    raise EngineError(f"{upstream.url} is asked by somebody else: its counts do not come to rest")


def _copies(client: httpx.Client, router: ServerProcess) -> int:
    """Copies that wait in a router or are being answered.

    Raises:
        EngineError: it does not tell.
    """
    try:
        mirror = client.get(f"{router.url}/rollout").json()["health"]["mirror"]
        return int(mirror["waiting"]) + int(mirror["in_flight"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise EngineError(f"{router.url}: its copies cannot be counted: {error}") from error
