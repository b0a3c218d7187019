"""Asks a server which models it has, before the load begins."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

import httpx

from specdecode.errors import ConfigError, EngineError

_PATIENCE_S: Final = 10.0
_SHOWN: Final = 10


def models_of(url: str, api_key: str | None) -> list[Mapping[str, Any]]:
    """Entries of /v1/models.

    Raises:
        EngineError: there is no server, or it does not list models.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    where = f"{url}/v1/models"
    try:
        with httpx.Client(
            timeout=_PATIENCE_S, trust_env=False, verify=ssl.create_default_context()
        ) as client:
            answer = client.get(where, headers=headers)
            document = answer.json() if answer.is_success else None
    except httpx.HTTPError as error:
        raise EngineError(f"{where}: {type(error).__name__}: {error}; is it running?") from error
    except ValueError as error:
        raise EngineError(f"{where} does not answer with JSON; is it an OpenAI server?") from error
    entries = document.get("data") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise EngineError(f"{where}: HTTP {answer.status_code}, no list of models; name one")
    return [entry for entry in entries if isinstance(entry, dict) and entry.get("id")]


def only_model(entries: list[Mapping[str, Any]], url: str) -> str:
    """The id of the one model there is.

    Raises:
        ConfigError: there is none, or several.
    """
    names = [str(entry["id"]) for entry in entries]
    if len(names) != 1:
        shown = ", ".join(names[:_SHOWN]) or "none"
        raise ConfigError(f"{url} has {len(names)} models ({shown}); choose with --model")
    return names[0]
