"""What a folder of parts was begun with: going on with other settings would mix two things."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specdecode.distil.texts import read_page, write_page
from specdecode.errors import ConfigError


def go_on(path: Path, settings: Mapping[str, Any]) -> None:
    """Note the settings at the start; later, compare.

    Args:
        path: where they are noted.
        settings: JSON-safe.

    Raises:
        ConfigError: the folder was begun with others; names them.
    """
    begun = read_page(path)
    if begun is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, settings)
        return
    other = sorted(
        name for name in begun.keys() | settings.keys() if begun.get(name) != settings.get(name)
    )
    if other:
        name = other[0]
        raise ConfigError(
            f"'{path.parent}' was begun with {name} = {begun.get(name)!r}, not "
            f"{settings.get(name)!r}: give the settings it was begun with, or another folder"
        )
