"""Asks a server over HTTP. The only file here that opens a connection."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Self

import httpx

from specdecode.errors import ConfigError
from specdecode.workload.engines.errors import (
    AccessDeniedError,
    ProtocolError,
    ServerError,
    ServerTimeoutError,
    UnreachableError,
    status_error,
)
from specdecode.workload.engines.facts import Answer, Facts

MAX_BODY_BYTES = 32 << 20
"""Most bytes of one answer. The metrics of a large deployment are a few MiB."""

_ACCEPT = "application/json, text/plain;version=0.0.4;q=0.9, */*;q=0.1"


class Server:
    """A server that may be asked.

    Args:
        base_url: its address, with or without `/v1` at the end.
        api_key: sent as a bearer token; never shown in messages.
        timeout_s: seconds for one whole answer, connecting included.
        transport: what carries the requests, for tests; the network if None.

    Raises:
        ConfigError: the address is not one of HTTP, or carries credentials; or no header can carry
            the key.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 15.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if not timeout_s > 0:
            raise ConfigError(f"timeout_s is {timeout_s:g}; give a number of seconds above 0")
        self.base_url = root_of(base_url)
        self._timeout_s = timeout_s
        headers = {"Accept": _ACCEPT}
        if api_key is not None:
            headers["Authorization"] = bearer(api_key)
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=timeout_s,
            transport=transport,
            follow_redirects=False,
            # Load goes to the address itself; a proxy, or a key out of .netrc, would be another way
            # in, perhaps to another server.
            trust_env=False,
            verify=_certificates(),
            # A server may close an idle connection just as it is used again, which would look like
            # a failure of the server; so each question has a connection of its own.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def get(self, path: str) -> Answer:
        """Ask for one path, once.

        Returns:
            The answer, whatever its status.

        Raises:
            UnreachableError, ServerTimeoutError, ProtocolError: there was no whole answer.
        """
        where = self.base_url + path
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._get(path, where)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ServerTimeoutError(
                where, f"no whole answer within {self._timeout_s:g} s; is the server stuck?"
            ) from error
        except httpx.ConnectError as error:
            raise UnreachableError(
                where, f"cannot connect ({error}); check that it runs and listens there"
            ) from error
        except httpx.HTTPError as error:
            raise ProtocolError(
                where, f"broke off or broke the protocol ({type(error).__name__}: {error})"
            ) from error

    async def _get(self, path: str, where: str) -> Answer:
        async with self._client.stream("GET", where) as response:
            body = bytearray()
            async for some in response.aiter_bytes():
                body += some
                if len(body) > MAX_BODY_BYTES:
                    raise ProtocolError(where, f"sent more than {MAX_BODY_BYTES} bytes")
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(path, response.status_code, headers, bytes(body))

    async def ask(self, paths: Iterable[str]) -> Facts:
        """Ask for several paths at once.

        Returns:
            The answers and, where there was none, why. One path that fails takes no other with it.

        Raises:
            ServerError: no path gave any answer; the first failure.
            AccessDeniedError: the server wants other credentials wherever it was asked.
        """
        wanted = tuple(dict.fromkeys(paths))
        at = datetime.now(UTC)
        found = await asyncio.gather(*map(self._try, wanted))
        answers = {a.path: a for a in found if isinstance(a, Answer)}
        failures = {
            path: error.problem
            for path, error in zip(wanted, found, strict=True)
            if isinstance(error, ServerError)
        }
        if not answers:
            raise next(error for error in found if isinstance(error, ServerError))
        denied = [a for a in answers.values() if a.status in (401, 403)]
        if denied and not any(a.ok for a in answers.values()):
            shown = denied[0]
            raise AccessDeniedError(
                self.base_url + shown.path,
                shown.status,
                "the server wants an API key, or another one than it was given",
            )
        return Facts(self.base_url, at, answers, failures)

    async def _try(self, path: str) -> Answer | ServerError:
        try:
            return await self.get(path)
        except ServerError as error:
            return error


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes longer than most servers take to answer."""
    return httpx.create_ssl_context()


def expect(answer: Answer, base_url: str) -> Answer:
    """The answer if it is a success.

    Raises:
        StatusError: it is not; the class says what kind.
    """
    if answer.ok:
        return answer
    raise status_error(
        base_url + answer.path, answer.status, answer.body, answer.headers.get("retry-after")
    )


def bearer(api_key: str) -> str:
    """The value of the Authorization header for a key.

    Raises:
        ConfigError: no header can carry the key. It is not shown, and must not reach the layer
            below, whose message would show it.
    """
    if not re.fullmatch("[!-~]+", api_key):
        raise ConfigError(
            "the API key is empty or has a blank, a line end or a character outside ASCII; was it "
            "read from a file with its line end?"
        )
    return f"Bearer {api_key}"


def root_of(base_url: str) -> str:
    """A server's address without `/v1` and without a slash at the end.

    Raises:
        ConfigError: not an HTTP address, or one with a query or credentials.
    """
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as error:
        raise ConfigError(f"{base_url!r} is not an address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{base_url!r} is not an HTTP address; give one such as http://host:8000")
    if url.userinfo or url.query or url.fragment:
        raise ConfigError(
            "the address has credentials, a query or a fragment; give the bare address, and a key "
            "as api_key"
        )
    return str(url).rstrip("/").removesuffix("/v1").rstrip("/")
