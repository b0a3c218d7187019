"""What is installed is all that the programs read: no file is left behind in the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DATA = PROJECT["tool"]["setuptools"]["package-data"]


def matched(package, pattern):
    found = (ROOT / package.replace(".", "/")).glob(pattern)
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_every_file_beside_the_code_is_installed_with_it():
    """Else name it in [tool.setuptools.package-data]."""
    beside = {
        path.relative_to(ROOT).as_posix()
        for top in ("specdecode", "pipelines")
        for path in (ROOT / top).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    named = set().union(*(matched(p, pattern) for p in DATA for pattern in DATA[p]))

    assert "pipelines/demo/plan.yaml" in beside
    assert beside - named == set()


def test_no_pattern_is_for_nothing():
    assert all(matched(package, pattern) for package in DATA for pattern in DATA[package])


def test_the_extra_ray_is_what_the_nodes_of_a_cluster_install():
    text = (ROOT / "pipelines/deployments/ray/requirements.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^[^#\n]+$", text, re.MULTILINE)

    assert PROJECT["project"]["optional-dependencies"]["ray"] == pins
