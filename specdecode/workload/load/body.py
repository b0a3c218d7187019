"""The JSON that asks an OpenAI-compatible server for one reply."""

from __future__ import annotations

import json
from typing import Any

from specdecode.workload.load.request import Request
from specdecode.workload.load.sampling import PARAMETERS
from specdecode.workload.load.spec import LoadSpec
from specdecode.workload.split import seeded_hash


def seed_of(spec: LoadSpec, request: Request) -> int | None:
    """Seed of a sampled reply, in [0, 2³¹), which every server takes; None when greedy."""
    if request.sampling.greedy:
        return None
    return seeded_hash("load", spec.seed, request.warm_up, request.index) % 2**31


def body_of(spec: LoadSpec, request: Request) -> bytes:
    """The request's body; of sampling, the row records the same values."""
    body: dict[str, Any] = {"model": spec.model, "max_tokens": request.max_tokens}
    if spec.api == "chat":
        body["messages"] = request.prompt.messages()
    else:
        ids = request.prompt.token_ids()
        body["prompt"] = request.prompt.text() if ids is None else ids
    body |= request.sampling.body(in_full=spec.neutral_fields)
    if (seed := seed_of(spec, request)) is not None:
        body["seed"] = seed
    # Fields of some servers only are sent only when they were asked for.
    if spec.token_ids:
        body["return_token_ids"] = True
    if spec.include_usage:
        body["stream_options"] = {"include_usage": True}
    body |= {k: v for k, v in spec.extra_body.items() if k not in PARAMETERS}
    body["stream"] = True
    return json.dumps(body, ensure_ascii=False).encode("utf-8")
