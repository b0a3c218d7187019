"""Points in time as every record writes them: UTC, ISO 8601, ending in Z."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator

from specdecode.errors import ConfigError

_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", re.ASCII)


def utc_now() -> datetime:
    """The clock of this machine, which proves nothing by itself: an anchor does."""
    return datetime.now(UTC)


def utc_text(at: datetime) -> str:
    """Such as 2026-11-30T04:00:00Z, with microseconds where there are any.

    Raises:
        ConfigError: the time names no zone.
    """
    if at.tzinfo is None:
        raise ConfigError(f"{at.isoformat()}: a time without a zone; pass one in UTC")
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def parse_utc(text: str) -> datetime:
    """The time that `utc_text` wrote.

    Raises:
        ConfigError: another form, or no such time.
    """
    try:
        if _FORM.fullmatch(text):
            at = datetime.fromisoformat(text)
            if utc_text(at) == text:
                return at
    except ValueError:
        pass  # such as a thirtieth of February: told below
    raise ConfigError(f"{text!r}: not a time such as 2026-11-30T04:00:00Z (UTC)")


def _checked(text: str) -> str:
    parse_utc(text)
    return text


UtcText = Annotated[str, AfterValidator(_checked)]
"""A time as `utc_text` writes it."""
