"""Who is answered by which server: a salted hash, so that nobody changes sides by chance.

A key is hashed to a point in [0, 1), and the candidate has what lies below its share. The point
does not depend on the share, so raising the share moves nobody back to the baseline.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specdecode.durable import written_whole
from specdecode.errors import ConfigError

log = logging.getLogger("specdecode.rollout")

USER_HEADER: Final = "x-specdecode-user"
CONVERSATION_HEADER: Final = "x-specdecode-conversation"
PROMPT_HEADER: Final = "x-specdecode-prompt-id"

_SALT_BYTES: Final = 32
_LEAST_SALT_BYTES: Final = 16
_PRIVATE: Final = 0o600
_OTHERS: Final = 0o077
_POINTS: Final = 2**53
_NOT_IN_IDS: Final = re.compile(r"[^\w.:@~+=/-]+")
_LONGEST_ID: Final = 120


@dataclass(frozen=True)
class Subject:
    """Whom a request is from, as far as the assignment needs to know.

    Attributes:
        point: where they lie in [0, 1); the same for all their requests.
        label: stands for them in rows; says nothing about them without the salt.
        by: what they were told apart by: user, conversation, opening or prompt.
    """

    point: float
    label: str
    by: str

    def within(self, share: float) -> bool:
        """Whether they belong to a share."""
        return self.point < share


class Assignment:
    """Tells subjects apart.

    Args:
        salt: secret; another one draws other subjects.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def subject(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> Subject:
        """Whom a request is from: the user if told, else the conversation, else how it opened.

        Args:
            headers: of the request, names without regard to case.
            body: its JSON.
        """
        if user := headers.get(USER_HEADER):
            return self._subject("user", user)
        if conversation := headers.get(CONVERSATION_HEADER):
            return self._subject("conversation", conversation)
        for field in ("safety_identifier", "user"):
            if isinstance(user := body.get(field), str) and user:
                return self._subject("user", user)
        if "messages" in body:
            return self._subject("opening", _canonical(opening(body["messages"])))
        return self._subject("prompt", _canonical(body.get("prompt")))

    def _subject(self, by: str, key: str) -> Subject:
        text = f"{by}\0{key}".encode("utf-8", errors="surrogatepass")
        digest = hashlib.sha256(self._salt + text).digest()
        # Two independent parts of one hash: a label must not give the point away.
        point = int.from_bytes(digest[:8], "big") >> 11
        return Subject(point / _POINTS, digest[16:24].hex(), by)


def opening(messages: Any) -> Any:
    """What all requests of a chat begin with: everything up to the first message of the user."""
    if not isinstance(messages, list):
        return messages
    for place, message in enumerate(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            return messages[: place + 1]
    return messages


def prompt_id_of(headers: Mapping[str, str], subject: Subject, request_id: str) -> str:
    """The `prompt_id` of rows: unique, and before its last slash what belongs together."""
    given = _NOT_IN_IDS.sub("_", headers.get(PROMPT_HEADER, ""))[:_LONGEST_ID]
    return f"{given or subject.label}/{request_id}"


def salt_of(path: Path) -> bytes:
    """The salt of a file, which is made if it is not there, for its owner's eyes only.

    Raises:
        ConfigError: it cannot be read or made, or is too short to be secret.
    """
    try:
        if not path.exists():
            with written_whole(path, mode=_PRIVATE, replace=False) as file:
                file.write(secrets.token_hex(_SALT_BYTES).encode() + b"\n")
    except FileExistsError:  # somebody else was first, and theirs holds
        pass
    except OSError as error:
        raise ConfigError(f"{path}: the salt cannot be written ({error})") from error
    try:
        salt = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{path}: the salt cannot be read ({error})") from error
    if len(salt) < _LEAST_SALT_BYTES:
        raise ConfigError(
            f"{path}: a salt of {len(salt)} bytes can be guessed; give at least "
            f"{_LEAST_SALT_BYTES}, or remove the file and a good one is made"
        )
    if path.stat().st_mode & _OTHERS:
        log.warning("%s: others can read the salt; run chmod 600 on it", path)
    return salt


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
