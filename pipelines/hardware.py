"""Which kind of machine a run needs: "gpu" or "cpu".

A plan names no machine: its population does in words, and the environment's digest in the input
manifest pins it. What can be read by a program is `decoding.device` in params.yaml, so the pool a
deployment runs in (pipelines/deployments) and the slot a measurement takes both follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pipelines import environment
from specdecode.errors import ConfigError

Hardware = Literal["cpu", "gpu"]


def hardware_class(params: Mapping[str, Any], gpus: int) -> Hardware:
    """Returns the class that `decoding.device` asks for.

    Args:
        params: the document params.yaml.
        gpus: GPUs at hand; "auto" takes one when there is one.

    Raises:
        ConfigError: `decoding.device` is missing or none of auto, cpu and cuda.
    """
    decoding = params.get("decoding")
    device = decoding.get("device") if isinstance(decoding, Mapping) else None
    if device == "auto":
        return "gpu" if gpus else "cpu"
    if device in ("cpu", "cuda"):
        return "gpu" if device == "cuda" else "cpu"
    raise ConfigError(f"params.yaml: decoding.device is {device!r}; take auto, cpu or cuda")


def gpus_here() -> int:
    """Returns how many GPUs the driver of this machine shows."""
    return len(environment.describe(None)["hardware"]["gpus"])


def slot(hardware: Hardware) -> str:
    """Returns the name of the concurrency limit that a measurement on such a machine takes."""
    return f"specdecode-{hardware}"
