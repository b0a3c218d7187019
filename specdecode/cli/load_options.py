"""What the options of `specdecode load` mean together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specdecode.errors import ConfigError


def which_arrivals(
    named: str | None,
    *,
    rate: float | None,
    burstiness: float,
    ramp_to: float | None,
    trace: Path | None,
    concurrency: int | None,
) -> str:
    """The kind of arrivals: as named, else the one that the other options imply.

    Raises:
        ConfigError: nothing implies one, or two things do.
    """
    if named is not None:
        return named
    if concurrency is not None and rate is not None:
        raise ConfigError(
            "--rate sends at its own times, --concurrency waits for replies: give one of them "
            "(--max-in-flight caps an open loop)"
        )
    if concurrency is not None:
        return "closed"
    if ramp_to is not None:
        return "ramp"
    if rate is not None:
        return "gamma" if burstiness != 1.0 else "poisson"
    if trace is not None:
        return "trace"
    raise ConfigError("say when to send: --rate, --concurrency, or a --trace with times")


def ramp_time(
    ramp_seconds: float | None, duration: float | None, ramp_to: float | None
) -> float | None:
    """Length of a ramp: as given, else the whole run; None where there is no ramp."""
    if ramp_to is None:
        return None
    return ramp_seconds if ramp_seconds is not None else duration


def objectives(texts: Sequence[str]) -> dict[str, float]:
    """`name=seconds` pairs as a mapping.

    Raises:
        ConfigError: one is no such pair, or a name occurs twice.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, seconds = text.partition("=")
        try:
            value = float(seconds)
        except ValueError:
            raise ConfigError(f"--slo {text}: write a name and seconds, such as ttft=0.5") from None
        if name in found:
            raise ConfigError(f"--slo {name} is given twice")
        found[name] = value
    return found


def json_object(option: str, text: str | None) -> dict[str, Any]:
    """A JSON object given as an option; empty without one.

    Raises:
        ConfigError: it is none.
    """
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{option}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{option}: write an object, such as '{{\"min_p\": 0.1}}'")
    return value


def one_of(option: str, value: str | None, known: Sequence[str]) -> str | None:
    """The value, if it is known or absent.

    Raises:
        ConfigError: it is neither.
    """
    if value is not None and value not in known:
        raise ConfigError(f"{option} is one of {', '.join(known)}, not {value!r}")
    return value
