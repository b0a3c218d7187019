"""Whether memory has room for the slots that were asked for."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import psutil
import torch

from specdecode.decoding import Engine
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.errors import ConfigError
from specdecode.models.cache import KVCache
from specdecode.models.network import CausalNetwork
from specdecode.serving.apart import apart

log = logging.getLogger("specdecode.serving")

_LEAST_TOKENS: Final = 256  # a row of the running batch has room for so many, however short
_CGROUP: Final = Path("/sys/fs/cgroup")


def check_slots(engine: Engine, slots: int, context: int) -> None:
    """Refuse slots for which there can be no room; warn where long replies may leave none.

    Args:
        engine: loaded.
        slots: most replies decoded together.
        context: most tokens of a prompt and its reply.

    Raises:
        ConfigError: even the shortest replies of so many would not fit; says how many do.
    """
    network = engine.target.network
    token, free = bytes_per_token(network), free_bytes(network.device)
    if isinstance(engine.drafter, ModelDrafter):  # others keep no keys and values, or the target's
        token += bytes_per_token(engine.drafter.network)
    least = token * _LEAST_TOKENS
    if slots * least > free:
        raise ConfigError(
            f"slots={slots}: the keys and values of each take {_size(least)} at least, which is "
            f"{_size(slots * least)} in all, and {_size(free)} of memory are free: give at most "
            f"{max(1, free // least)}"
        )
    if slots * token * context > free:
        log.warning(
            "%d slots of %d tokens take %s, and %s of memory are free: where that many are long "
            "together, some will end with an error (fewer slots, or a lower longest prompt or "
            "reply, leave room for all)",
            *(slots, context, _size(slots * token * context), _size(free)),
        )


def bytes_per_token(network: CausalNetwork) -> int:
    """Memory of one token's keys and values, as a pass over one token takes it."""
    cache = KVCache(1, 1)
    token = torch.zeros(1, 1, dtype=torch.int64, device=network.device)
    # Computed here, it would leave this thread a pool, and every step of the engine's would sleep.
    apart(lambda: network.forward(token, [0], cache))
    return max(1, cache.bytes_held)


def free_bytes(device: torch.device) -> int:
    """Memory that can still be had on a device; of a container no more than it may use."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    try:
        most = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no container, or one without a limit
        return free
    return min(free, max(0, most - used))


def _size(count: int) -> str:
    value, unit = float(count), 0
    units = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
    while value >= 1000 and unit < len(units) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {units[unit]}"
