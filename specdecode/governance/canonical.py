"""Canonical JSON (RFC 8785): one text for one meaning, so that a hash can stand for a document."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from specdecode.errors import ConfigError

MAX_INTEGER = 2**53
"""Beyond it neighbouring integers share one double, and readers would disagree on the number."""


def canonical_bytes(document: Any) -> bytes:
    """A JSON document as its canonical UTF-8 bytes (RFC 8785, section 3.2).

    Keys are sorted by UTF-16 code units, there are no spaces, and numbers have the shortest
    ECMAScript form, so 1.0 and 1 are the same.

    Raises:
        ConfigError: NaN, infinity, an integer beyond 2^53, a key that is no string, half a
            surrogate pair, or a value JSON has no form for. The message names where.
    """
    return _text(document, "$").encode("utf-8")


def sha256_hex(data: bytes) -> str:
    """SHA-256 as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def parse_canonical(data: bytes) -> Any:
    """The document whose canonical form is exactly `data`.

    Raises:
        ConfigError: not JSON, a key twice, or another spelling of the same document: where every
            byte is signed or chained, a second spelling is a change that nobody may make.
    """
    try:
        document = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_int=_integer, parse_constant=_no
        )
        same = canonical_bytes(document) == data
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not canonical JSON: {error}") from error
    if not same:
        raise ConfigError("not canonical JSON: the same document is spelled in another way")
    return document


def _text(value: Any, where: str) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _string(value, where)
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ConfigError(f"{where}: {value} is beyond 2^53; write it as a string")
        return int.__repr__(value)
    if isinstance(value, float):
        return _number(value, where)
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(item, f"{where}[{i}]") for i, item in enumerate(value)) + "]"
    if isinstance(value, Mapping):
        return _object(value, where)
    raise ConfigError(f"{where}: {type(value).__name__} has no JSON form; convert it first")


def _object(value: Mapping[Any, Any], where: str) -> str:
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(f"{where}: key {key!r} is not a string; JSON has no other keys")
    members = {_string(key, where): (key, item) for key, item in value.items()}
    ordered = sorted(members.items(), key=lambda member: member[1][0].encode("utf-16-be"))
    return "{" + ",".join(f"{k}:{_text(v, f'{where}.{key}')}" for k, (key, v) in ordered) + "}"


def _string(value: str, where: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{where}: half a surrogate pair is no character; remove it") from error
    return json.dumps(str(value), ensure_ascii=False)


def _number(value: float, where: str) -> str:
    """ECMAScript's Number::toString: same digits as Python's repr, other layout."""
    if not math.isfinite(value):
        raise ConfigError(f"{where}: {value} is no JSON number; write null for a missing one")
    if value == 0:
        return "0"
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0)  # the decimal point stands after so many digits
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    return ("-" if value < 0 else "") + _layout(digits, point)


def _layout(digits: str, point: int) -> str:
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    head = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{head}e{point - 1:+d}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key occurs twice")
    return members


def _integer(digits: str) -> int | float:
    # Doubles such as 1e20 are written without an exponent and must come back as what they were.
    value = int(digits)
    return value if abs(value) <= MAX_INTEGER else float(digits)


def _no(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")
