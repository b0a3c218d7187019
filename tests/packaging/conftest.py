"""A wheel of this working copy, installed into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.commands import ROOT

LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info")
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
OFFLINE = ("--no-deps", "--no-index")
READ_BY_THE_BUILD = ("pyproject.toml", "README.md", "LICENSE")


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and nothing else of this project.

    Attributes:
        wheel: the wheel.
        bin: folder of its programs.
        site: where its packages are.
    """

    wheel: Path
    bin: Path
    site: Path

    def run(self, *command: str, cwd: Path, **more: str) -> subprocess.CompletedProcess:
        """Run a program of the environment, without any path of this one's."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd,
            env={**kept, "PATH": os.pathsep.join([str(self.bin), os.defpath]), **more},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Built from a copy, since a build leaves files behind; with the build tools that are here."""
    source = tmp_path_factory.mktemp("source")
    for name in ("specdecode", "pipelines"):
        shutil.copytree(ROOT / name, source / name, ignore=LEFT_OUT)
    for name in READ_BY_THE_BUILD:
        shutil.copy(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [*PIP, "wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", str(out), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """The wheel in a fresh environment, which borrows the locked dependencies from this one.

    Nothing is downloaded: a .pth file names this environment's packages, behind the wheel's own.
    The link that `make install` makes to the working copy is a .pth file too, and those of a folder
    that is named in one are not read, so the project is found in the wheel or nowhere.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site, programs = folder / "lib" / version / "site-packages", folder / "bin"
    done = subprocess.run(
        [*PIP, "--python", str(programs / "python"), "install", *OFFLINE, str(wheel)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return Installed(wheel, programs, site)
