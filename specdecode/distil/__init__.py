"""Make a small draft for a target out of what the target itself writes (docs/distil.md).

Names are imported on first use: the command line's help must not cost a torch import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdecode.distil.acceptance import evaluate
    from specdecode.distil.portable import export
    from specdecode.distil.run import distil
    from specdecode.distil.settings import SynthesisSettings, TrainingSettings
    from specdecode.distil.sizes import compare
    from specdecode.distil.withheld import Withheld, read_withheld, write_withheld

_HOME = {
    "SynthesisSettings": "settings",
    "TrainingSettings": "settings",
    "Withheld": "withheld",
    "compare": "sizes",
    "distil": "run",
    "evaluate": "acceptance",
    "export": "portable",
    "read_withheld": "withheld",
    "write_withheld": "withheld",
}

__all__ = [
    "SynthesisSettings",
    "TrainingSettings",
    "Withheld",
    "compare",
    "distil",
    "evaluate",
    "export",
    "read_withheld",
    "write_withheld",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
