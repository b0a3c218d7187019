"""A copy of a user's request for the candidate: what of it may be copied, and what is changed.

A copy is asked in nobody's name and must leave no trace but its reply. So of the user's headers
only those on a short list go along, credentials never; what identifies the user in the body is
replaced by a pseudonym; and a request that makes the server do more than decode is not copied.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from specdecode.errors import ConfigError

ROUTES: Final = ("/v1/completions", "/v1/chat/completions")
"""What is copied; everything else may do something on the server."""

PASSED: Final = frozenset(
    {
        "x-specdecode-category",
        "x-specdecode-difficulty",
        "x-specdecode-language",
        "x-specdecode-sampling",
    }
)
"""Headers of the user that go along: they label the request and name nobody."""

NEVER_PASSED: Final = frozenset(
    {
        "api-key",
        "authorization",
        "connection",
        "cookie",
        "cookie2",
        "forwarded",
        "host",
        "keep-alive",
        "openai-organization",
        "openai-project",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-api-key",
        "x-real-ip",
        "x-request-id",
        "x-specdecode-conversation",
        "x-specdecode-user",
    }
)
"""Headers that no setting lets through: credentials, who asked, and those of one connection."""
_NEVER_BEGINNINGS: Final = ("proxy-", "x-forwarded-", "sec-")

SHADOW: Final = "x-specdecode-shadow"
"""Marks a copy, so that whoever bills or counts can leave it out."""

_PSEUDONYMS: Final = ("user", "safety_identifier", "prompt_cache_key", "cache_salt")
_DROPPED: Final = ("metadata", "request_id", "rid", "priority", "service_tier", "store")
_ACTS: Final = {
    "web_search_options": "server_tool",
    "search_parameters": "server_tool",
    "data_sources": "server_tool",
    "plugins": "server_tool",
    "mcp_servers": "server_tool",
    "background": "stored",
    "session_params": "stored",
    "kv_transfer_params": "stored",
    "webhook": "calls_back",
    "webhook_url": "calls_back",
    "callback": "calls_back",
    "callback_url": "calls_back",
    "api_key": "credentials",
    "api_base": "credentials",
    "base_url": "credentials",
    "extra_headers": "credentials",
}
"""Fields that make a server do more than decode, and under which word that is counted."""
_CLIENT_TOOLS: Final = ("function", "custom")
_PSEUDONYM_CHARS: Final = 32


@dataclass(frozen=True)
class Copy:
    """A request to be sent to the candidate as well.

    Attributes:
        path: its route.
        body: as the user sent it; what `CopyRules.ready` makes of it once it is sent.
        headers: likewise. The mirror forgets at once which of them may not go along.
        asked: fields of the candidate's row that are known before the reply.
        streaming: whether the reply is an event stream.
        partner: `request_id` of the baseline's row, which does not count if the copy is not sent.
        parsed: the body's JSON, where somebody has read it already.
        after: no work is done for the copy before this is; None where it need not wait.
    """

    path: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    asked: Mapping[str, Any] = field(repr=False)
    streaming: bool
    partner: str | None = None
    parsed: Mapping[str, Any] | None = field(default=None, repr=False)
    after: asyncio.Future[None] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class CopyRules:
    """How a request becomes one of the router's own.

    Attributes:
        salt: secret of this router; without it nobody finds the user behind a pseudonym.
        key: the candidate's own API key, or None.
        model: name of the model at the candidate; None keeps the user's.
        priority: of copies, where the candidate schedules by priority (vLLM: larger is later);
            None sends none, as servers without such a schedule refuse it.
        add_cache_salt: give also requests without a `cache_salt` one. Needed where both arms share
            a cache of prefixes, or the candidate would read what the baseline has computed. Servers
            that know no such field may refuse it.
        ask_usage: ask for token counts in streams.
        passed: headers of the user that go along, in lower case.
    """

    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)
    key: str | None = field(default=None, repr=False)
    model: str | None = None
    priority: int | None = None
    add_cache_salt: bool = False
    ask_usage: bool = True
    passed: frozenset[str] = PASSED

    def __post_init__(self) -> None:
        if unsafe := sorted(name for name in self.passed if not _may_pass(name)):
            raise ConfigError(
                f"headers of users that copies never carry: {', '.join(unsafe)}; give the "
                "candidate a key of its own instead"
            )

    def without_the_user(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers that may go along, names in lower case."""
        return {name.lower(): value for name, value in headers.items() if self._passes(name)}

    def _passes(self, name: str) -> bool:
        return name.lower() in self.passed

    def ready(self, copy: Copy) -> Copy:
        """The request as it is sent.

        Raises:
            ValueError: the body is not a JSON object.
        """
        headers = self.without_the_user(copy.headers) | {
            "content-type": "application/json",
            "accept": "text/event-stream" if copy.streaming else "application/json",
            "accept-encoding": "identity",
            "x-request-id": f"shadow-{uuid.uuid4().hex}",
            SHADOW: "1",
        }
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key}"
        body = self._body(parsed_body(copy), streaming=copy.streaming)
        try:
            sent = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # half a character: legal in JSON, as an escape only
            sent = json.dumps(body, separators=(",", ":")).encode()
        return replace(copy, headers=headers, body=sent, parsed=None)

    def _body(self, asked: Mapping[str, Any], *, streaming: bool) -> dict[str, Any]:
        body = {name: value for name, value in asked.items() if name not in _DROPPED}
        for name in _PSEUDONYMS:
            if body.get(name) is not None:
                body[name] = self._pseudonym(name, body[name])
        if self.add_cache_salt and body.get("cache_salt") is None:
            body["cache_salt"] = self._pseudonym("cache_salt", None)
        if self.model is not None:
            body["model"] = self.model
        if self.priority is not None:
            body["priority"] = self.priority
        if streaming and self.ask_usage:
            options = body.get("stream_options")
            known = options if isinstance(options, dict) else {}
            body["stream_options"] = {**known, "include_usage": True}
        return body

    def _pseudonym(self, name: str, value: Any) -> str:
        """The same for the same value, so that requests that belong together still do."""
        said = json.dumps([name, value], sort_keys=True).encode()
        digest = hashlib.blake2b(said, key=self.salt[: hashlib.blake2b.MAX_KEY_SIZE])
        return digest.hexdigest()[:_PSEUDONYM_CHARS]


def parsed_body(copy: Copy) -> Mapping[str, Any]:
    """The JSON object that the body is.

    Raises:
        ValueError: it is none.
    """
    if copy.parsed is not None:
        return copy.parsed
    try:
        found = json.loads(copy.body)
    except RecursionError as error:
        raise ValueError("the body is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("the body is not an object")  # noqa: TRY004 - of JSON, not of Python
    return found


def why_not_copied(path: str, body: Mapping[str, Any]) -> str | None:
    """One word for what a copy of this request would do besides decoding; None if nothing.

    Args:
        path: route.
        body: its JSON.

    Returns:
        "route": not one of the two completion routes; "stored": the server would keep it;
        "server_tool": the server would search or call tools; "calls_back": it would call an
        address; "credentials": the body holds keys or addresses that go with them;
        "remote_content": the server would fetch something that the request names.
    """
    if path not in ROUTES:
        return "route"
    if body.get("store"):
        return "stored"
    for name, why in _ACTS.items():
        if body.get(name):
            return why
    if "web_search_options" in body and body["web_search_options"] is not None:
        return "server_tool"  # an empty object switches it on
    tools = body.get("tools")
    if isinstance(tools, list) and not all(map(_runs_at_the_client, tools)):
        return "server_tool"
    return "remote_content" if _fetches(body.get("messages")) else None


def _may_pass(name: str) -> bool:
    return (
        name == name.lower() and name not in NEVER_PASSED and not name.startswith(_NEVER_BEGINNINGS)
    )


def _runs_at_the_client(tool: object) -> bool:
    # A tool without a type is malformed; the server refuses it and nothing runs.
    return not isinstance(tool, dict) or tool.get("type", "function") in _CLIENT_TOOLS


def _fetches(messages: object) -> bool:
    """Whether a part of a message is an address; data within the request is none."""
    return any(
        _is_remote(part.get(kind))
        for part in _parts(messages)
        for kind in ("image_url", "video_url", "audio_url", "file_url")
    ) or any("file_id" in _object(part.get("file")) for part in _parts(messages))


def _parts(messages: object) -> Iterable[Mapping[str, Any]]:
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            yield from (part for part in content if isinstance(part, dict))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_remote(value: object) -> bool:
    url = value.get("url") if isinstance(value, dict) else value
    return isinstance(url, str) and not url.lstrip().lower().startswith("data:")
