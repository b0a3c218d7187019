"""Texts without what looks like personal data, before anything of them is kept."""

from __future__ import annotations

from typing import Any

from specdecode.workload.personal_data import personal_spans


def redacted(text: str) -> str:
    """The text with each find replaced by its kind: "write to [email]"."""
    parts, end = [], 0
    for kind, start, stop in personal_spans(text):
        parts += [text[end:start], f"[{kind}]"]
        end = stop
    return "".join([*parts, text[end:]])


def redacted_json(value: Any) -> Any:
    """The same of every text in a JSON value, keys included."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list):
        return [redacted_json(each) for each in value]
    if isinstance(value, dict):
        return {redacted(str(key)): redacted_json(each) for key, each in value.items()}
    return value
