"""How a program that was started shows that it is ready, and where it answers."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

import httpx

Ready = Callable[[str], str | None]
"""The address a program answers at, from what it has written; None while it is not ready."""

_ANSWER_S = 5.0


def says_its_address(text: str) -> str | None:
    """Ready when it has printed a JSON line with its `url`, as servers of this project do."""
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            document: Any = json.loads(line)
            if isinstance(document, dict) and "url" in document:
                return str(document["url"])
    return None


def says(pattern: str) -> Ready:
    """Ready when it has written what matches; the first group, if there is one, is its address."""
    compiled = re.compile(pattern)

    def ready(text: str) -> str | None:
        found = compiled.search(text)
        if found is None:
            return None
        return found.group(1) if compiled.groups else ""

    return ready


def answers(url: str, path: str) -> Ready:
    """Ready when it answers 200 at `url` + `path`."""

    def ready(_text: str) -> str | None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url + path, timeout=_ANSWER_S, trust_env=False).status_code == 200:
                return url
        return None

    return ready
