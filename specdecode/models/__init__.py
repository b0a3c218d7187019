"""Load target and draft models from any source, fingerprint them, and run their forward pass.

Names are imported on first use: resolving and hashing a source must not cost a torch import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdecode.models.cache import KVCache
    from specdecode.models.convert import convert_source
    from specdecode.models.fingerprint import Fingerprint, fingerprint_folder, sha256_file
    from specdecode.models.load import LoadedModel, load_model
    from specdecode.models.network import CausalNetwork
    from specdecode.models.source import Source, resolve_source

_HOME = {
    "CausalNetwork": "network",
    "Fingerprint": "fingerprint",
    "KVCache": "cache",
    "LoadedModel": "load",
    "Source": "source",
    "convert_source": "convert",
    "fingerprint_folder": "fingerprint",
    "load_model": "load",
    "resolve_source": "source",
    "sha256_file": "fingerprint",
}

__all__ = [
    "CausalNetwork",
    "Fingerprint",
    "KVCache",
    "LoadedModel",
    "Source",
    "convert_source",
    "fingerprint_folder",
    "load_model",
    "resolve_source",
    "sha256_file",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
