"""Reading the files a command is given, with messages that name file and line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from specdecode.errors import ConfigError


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ConfigError: the file is missing, unreadable or holds something else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected a JSON object, found {type(document).__name__}")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two equal keys a reader would see one, and another reader the other."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key occurs twice")
    return members


def check_head(given: str | None) -> None:
    """Refuse what cannot be a ledger's head: a slip of the hand must not read as a cut ledger.

    Raises:
        ConfigError: it has not the form of a SHA-256.
    """
    if given is not None and not re.fullmatch("[0-9a-f]{64}", given):
        raise ConfigError(f"--head {given}: a head is 64 hexadecimal digits, as commands print it")
