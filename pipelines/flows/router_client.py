"""A router, as flows talk to it: read its state, and change it from a state that was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx
from pydantic import ValidationError

from specdecode.errors import ConfigError, SpecdecodeError
from specdecode.governance.ladder_facts import Router
from specdecode.rollout.state import Mode, RolloutState

LONGEST_TEXT = 500
"""Characters of `changed_by` and `reason` that a router takes."""

CONFLICT, NOT_FOUND, UNFIT = 409, 404, 422
DENIED = (401, 403)
SERVER_ERROR = 500


class RouterUnreachableError(SpecdecodeError):
    """The router did not answer, or not as a router does; whether a change was made is unknown."""


class StateMovedError(SpecdecodeError):
    """The state is another than the one that was seen.

    Args:
        current: what it is now.
    """

    def __init__(self, current: RolloutState) -> None:
        self.current = current
        super().__init__(
            f"the router is at version {current.version} by now, set by {current.changed_by}"
        )


@dataclass(frozen=True)
class Target:
    """A state to go to."""

    mode: Mode
    share: float
    manifest_sha256: str | None

    def is_of(self, state: RolloutState) -> bool:
        """Whether a router is there."""
        own = (state.mode, state.share, state.manifest_sha256)
        return own == (self.mode, self.share, self.manifest_sha256)


class RouterClient:
    """One router.

    Args:
        url: its address, such as http://127.0.0.1:8080.
        token: for changes; None can only read.
        timeout_s: for each answer.
        transport: in tests, what takes the place of the network.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 10.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(
            headers=headers, timeout=timeout_s, transport=transport, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def read(self) -> Router:
        """The router's state, and whether it records.

        Raises:
            RouterUnreachableError: no answer, or not that of a router.
        """
        document = self._ask("GET").json
        health = document.get("health")
        health = health if isinstance(health, Mapping) else {}
        # A router that does not say that it records is taken for one that does not.
        why, mirror = health.get("why"), health.get("mirror")
        mute, sent = _copies(mirror if isinstance(mirror, Mapping) else {})
        return Router(
            state=self._state(document),
            recording=health.get("recording") is True,
            why=str(why) if why else None,
            mute=mute,
            sent_over_expected=sent,
        )

    def change(
        self, expected_version: int, target: Target, *, by: str, reason: str
    ) -> RolloutState:
        """Set the state, if it is still the one that was seen.

        The same call again after a lost answer changes nothing and is answered the same.

        Args:
            expected_version: of the state that was seen.
            target: what to set.
            by: who.
            reason: why.

        Raises:
            StateMovedError: the state is another by now; it is untouched.
            RouterUnreachableError: no answer; the change may have been made or not.
            ConfigError: the router refuses this caller, or this state.
        """
        body = {
            "expected_version": expected_version,
            "mode": target.mode,
            "share": target.share,
            "manifest_sha256": target.manifest_sha256,
            "changed_by": by[:LONGEST_TEXT],
            "reason": reason[:LONGEST_TEXT],
        }
        answer = self._ask("PUT", body)
        if answer.status == CONFLICT:
            raise StateMovedError(self._state(answer.json))
        return self._state(answer.json)

    def _ask(self, method: str, body: Mapping[str, Any] | None = None) -> _Answer:
        address = f"{self._url}/rollout"
        try:
            response = self._client.request(method, address, json=body)
        except httpx.HTTPError as error:
            raise RouterUnreachableError(
                f"{address}: {type(error).__name__}: {error}; is `specdecode route` running?"
            ) from error
        status = response.status_code
        if status in DENIED:
            raise ConfigError(
                f"{address}: refused ({status}): changes need the bearer token that the router was "
                "started with (--token-file)"
            )
        if status == UNFIT:
            raise ConfigError(f"{address}: refused (422): {response.text[:LONGEST_TEXT]}")
        if status >= SERVER_ERROR or status == NOT_FOUND:
            raise RouterUnreachableError(f"{address}: answered {status}; is this a router?")
        try:
            document = response.json()
        except ValueError as error:
            raise RouterUnreachableError(f"{address}: answered {status} without JSON") from error
        if not isinstance(document, dict):
            raise RouterUnreachableError(f"{address}: answered {status} with no object")
        return _Answer(status, document)

    def _state(self, document: Mapping[str, Any]) -> RolloutState:
        try:
            return RolloutState.model_validate(document.get("state"))
        except ValidationError as error:
            raise RouterUnreachableError(
                f"{self._url}: its state cannot be read: {error.errors()[0]['msg']}"
            ) from error


def _copies(mirror: Mapping[str, Any]) -> tuple[tuple[str, ...], float | None]:
    """Routes whose copies are missing, and sent over expected; what is no number is none sent."""
    mute, sent = mirror.get("mute") or (), mirror.get("sent_over_expected")
    routes = tuple(map(str, mute)) if isinstance(mute, list | tuple) else (str(mute),)
    if sent is None:
        return routes, None
    number = isinstance(sent, int | float) and not isinstance(sent, bool)
    return routes, float(sent) if number else 0.0


@dataclass(frozen=True)
class _Answer:
    status: int
    json: Mapping[str, Any]
