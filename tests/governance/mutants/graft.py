"""Puts changed code in the place of a module's own, in this process."""

from __future__ import annotations

import ast
from types import FunctionType, ModuleType
from typing import Any


def graft(module: ModuleType, tree: ast.Module) -> None:
    """Give the functions and tables of a module the code of its mutant, wherever they are held."""
    new: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(tree, str(module.__file__), "exec"), new)  # noqa: S102 - the gate's own code
    for name, value in new.items():
        _replace(vars(module), name, value, str(module.__file__))
    if "LINTS" in new:  # held by the list of all lints, not by name
        from specdecode.governance import lint

        own = {entry.code: entry for entry in new["LINTS"]}
        lint.LINTS = tuple(own.get(entry.code, entry) for entry in lint.LINTS)


def _replace(names: Any, name: str, value: Any, file: str, owner: type | None = None) -> None:
    old = names.get(name)
    if isinstance(value, property):
        old, value = getattr(old, "fget", None), value.fget
    if isinstance(value, FunctionType):
        if isinstance(old, FunctionType) and value.__code__.co_filename == file:
            old.__code__, old.__defaults__ = value.__code__, value.__defaults__
    elif isinstance(value, type) and isinstance(old, type) and value is not old:
        for inner, part in list(vars(value).items()):
            _replace(vars(old), inner, part, file, old)
    elif type(value) is str and owner is not None and not name.startswith("_"):
        setattr(owner, name, value)
    elif isinstance(value, dict) and owner is None and not name.startswith("__"):
        for key in set(old) - set(value):
            del old[key]
        if not any(callable(item) for item in value.values()):
            old.update(value)
    elif isinstance(value, tuple | int | float) and owner is None:
        names[name] = value
