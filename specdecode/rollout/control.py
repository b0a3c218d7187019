"""`/rollout`: what the router does; everybody may read it, the holder of the token change it.

A change names the version that its author saw. So of two who decide at once, one is told that the
other was first, and a change whose answer was lost can be sent again.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from pydantic import ValidationError

from specdecode.rollout.errors import RouterError
from specdecode.rollout.state import RolloutState
from specdecode.rollout.store import StateConflict, StateStore

log = logging.getLogger("specdecode.rollout")

_MOST_BYTES: Final = 65_536
_ASKED: Final = ("mode", "share", "manifest_sha256", "changed_by", "reason")
_NEEDED: Final = ("mode", "changed_by", "reason")


class Control:
    """Reads and changes the state.

    Args:
        store: the state.
        token: of those who may change it; None if nobody may.
        health: what is told beside the state.
        changed: told of every change.
    """

    def __init__(
        self,
        store: StateStore,
        token: str | None,
        health: Callable[[], dict[str, Any]],
        changed: Callable[[RolloutState], None],
    ) -> None:
        self._store, self._token = store, token
        self._health, self._changed = health, changed
        self._one = asyncio.Lock()
        self._changes: set[asyncio.Task[RolloutState]] = set()

    async def read(self, _request: web.Request) -> web.Response:
        """The state, and how the router is."""
        return self._told(self._store.current)

    async def write(self, request: web.Request) -> web.Response:
        """Another state.

        Raises:
            RouterError: it may not be changed, or not so.
        """
        self._authorise(request)
        document = await _document(request)
        change = asyncio.create_task(self._change(document))
        self._changes.add(change)
        change.add_done_callback(self._changes.discard)
        # What has begun is finished, whether or not somebody waits for the answer.
        return self._told(await asyncio.shield(change))

    async def _change(self, document: dict[str, Any]) -> RolloutState:
        # Only the second of two writers waits here, and no request for an answer ever does.
        async with self._one:
            before = self._store.current
            state = await self._written(document)
            if state.version != before.version:
                log.warning(
                    "state %d: mode %s, share %g, by %s: %s",
                    state.version,
                    state.mode,
                    state.share,
                    state.changed_by,
                    state.reason,
                )
                self._changed(state)
            return state

    async def _written(self, document: dict[str, Any]) -> RolloutState:
        expected = document.pop("expected_version")
        try:
            return await asyncio.to_thread(self._store.change, document, expected)
        except StateConflict as conflict:
            raise RouterError(409, str(conflict), state=_json(conflict.current)) from conflict
        except ValidationError as error:
            raise RouterError(422, f"that is no state: {_problems(error)}") from error
        except OSError as error:
            raise RouterError(
                503, f"the state cannot be written ({error}); it is what it was: make room"
            ) from error

    def _authorise(self, request: web.Request) -> None:
        if self._token is None:
            raise RouterError(
                403,
                "this router's state cannot be changed: it was started without --token-file",
            )
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        matches = hmac.compare_digest(
            given.strip().encode("utf-8", "surrogateescape"), self._token.encode()
        )
        if scheme.lower() != "bearer" or not matches:
            raise RouterError(401, "no valid token: send 'Authorization: Bearer TOKEN'")

    def _told(self, state: RolloutState) -> web.Response:
        return web.json_response({"state": _json(state), "health": self._health()})


async def _document(request: web.Request) -> dict[str, Any]:
    """What is asked for, of known fields only.

    Raises:
        RouterError: it is something else.
    """
    body = await request.content.read(_MOST_BYTES + 1)
    while len(body) <= _MOST_BYTES and (more := await request.content.readany()):
        body += more
    if len(body) > _MOST_BYTES:
        raise RouterError(413, f"a state is shorter than {_MOST_BYTES} bytes")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RouterError(422, f"the body is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise RouterError(422, "the body is no JSON object")
    known = ("expected_version", *_ASKED)
    if unknown := sorted(set(document) - set(known)):
        raise RouterError(422, f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    if missing := [name for name in ("expected_version", *_NEEDED) if name not in document]:
        raise RouterError(422, f"missing: {', '.join(missing)}")
    version = document["expected_version"]
    if type(version) is not int or version < 0:
        raise RouterError(422, "expected_version: give the version that you saw, from 0")
    return document


def _json(state: RolloutState) -> dict[str, Any]:
    return state.model_dump(mode="json", by_alias=True)


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, found['loc'])) or 'state'}: {found['msg']}"
        for found in error.errors(include_url=False, include_input=False)
    )
