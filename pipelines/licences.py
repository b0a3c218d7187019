"""Under which licence a package is, by its own metadata."""

from __future__ import annotations

from importlib.metadata import Distribution

_LONGEST = 60
"""Some packages put the whole text of their licence where its name belongs."""

_PREFIX = "License :: "


def licence_of(package: Distribution) -> str | None:
    """The licence that a package states, or None.

    Its SPDX expression (PEP 639) comes first, then a short `License` field, then the classifiers.
    Nothing is guessed from the text of a licence file.
    """
    expression = _field(package, "License-Expression")
    if expression:
        return expression
    name = _field(package, "License")
    if name and "\n" not in name and len(name) <= _LONGEST and name.upper() != "UNKNOWN":
        return name
    stated = [
        value.removeprefix(_PREFIX).removeprefix("OSI Approved :: ")
        for value in package.metadata.get_all("Classifier") or []
        if value.startswith(_PREFIX) and value != "License :: OSI Approved"
    ]
    return "; ".join(sorted(stated)) or None


def _field(package: Distribution, name: str) -> str:
    return str((package.metadata.get_all(name) or [""])[0]).strip()
