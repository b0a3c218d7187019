"""What a live request asks for, as rows hold it and the audit reads it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from specdecode.workload.load.payload import mended
from specdecode.workload.load.sampling import PARAMETERS

SETTINGS: Final = ("greedy", "sampled")
"""Names of sampling settings that a request may be given."""

_WITHOUT_LAW: Final = frozenset(
    {
        "cache_prompt", "cache_salt", "id_slot", "logprobs", "max_completion_tokens", "max_tokens",
        "messages", "metadata", "model", "n", "best_of", "parallel_tool_calls", "priority",
        "prompt", "prompt_cache_key", "request_id", "return_spec_tokens_details",
        "return_token_ids", "safety_identifier", "seed", "service_tier", "store", "stream",
        "stream_options", "timings_per_token", "top_logprobs", "user",
    }
)  # fmt: skip
"""Fields of a request that do not change the law of a reply to a given prompt."""
_NEUTRAL: Final[tuple[Any, ...]] = (None, False, "", [], {}, {"type": "text"})
_MOST_ITEMS, _LONGEST = 64, 200
LARGEST: Final = 2**63
"""Whole numbers of rows are below it."""


def sampling_of(
    body: Mapping[str, Any], named: str | None = None, settings: Collection[str] = SETTINGS
) -> dict[str, Any]:
    """Name and parameters of a request's sampling, as rows hold them and the audit reads them.

    Temperature 0 is greedy, and so is top_k 1, whose law is the same: it is recorded with
    temperature 0. A name given by the client counts if it is one of `settings` and not that of the
    other kind of sampling. Fields that change the law of a reply and that the audit does not know
    leave a digest, on which the audit refuses the row.

    Args:
        body: of the request.
        named: by the client.
        settings: that there are.
    """
    kept: dict[str, Any] = {}
    other: dict[str, Any] = {}
    for name, value in body.items():
        if value is None or (name not in PARAMETERS and name in _WITHOUT_LAW):
            continue
        if name in PARAMETERS and _plain(value):
            kept[name] = value
        elif value not in _NEUTRAL:
            other[name] = value
    if (limit := _limit(body)) is None:
        kept.pop("max_tokens", None)
    else:
        kept["max_tokens"] = limit
    if kept.get("top_k") == -1:
        kept["top_k"] = 0  # how every server but ours writes "all"
    if isinstance(kept.get("stop"), str):
        kept["stop"] = [kept["stop"]]
    if kept.get("top_k") == 1:
        kept["temperature"] = 0.0
    greedy = kept.get("temperature", 1.0) == 0
    name = "greedy" if greedy else "sampled"
    if named in settings and named != ("sampled" if greedy else "greedy"):
        name = str(named)
    if other:
        kept["other_sha256"] = _digest(other)
    return {"name": name, **kept}


def _limit(body: Mapping[str, Any]) -> int | None:
    """Most tokens that every server takes the request to ask for.

    Some do not know the newer name, so what it says alone is not held against a reply.
    """
    told = [body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    if any(type(each) is not int or not 0 < each < LARGEST for each in told[:1]):
        return None
    return max(each for each in told if type(each) is int and each < LARGEST)


def _plain(value: object) -> bool:
    """Whether a parameter is of a form and size that a row may hold."""
    if isinstance(value, bool | int):
        return abs(int(value)) < LARGEST
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return len(value) <= _LONGEST and mended(value) == value  # not half a character
    if isinstance(value, list):
        return len(value) <= _MOST_ITEMS and all(
            isinstance(each, str) and _plain(each) for each in value
        )
    if isinstance(value, Mapping):
        return len(value) <= _MOST_ITEMS and all(
            _plain(key) and isinstance(each, int | float) and _plain(each)
            for key, each in value.items()
        )
    return False


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode("ascii")).hexdigest()
