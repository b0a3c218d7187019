"""Runs in the child process only: lower the limits, run the reply's code, then its tests.

Started as `python -I program_child.py`; reads one JSON job from standard input. The nonce is
written to the file `passed` after the last test, so that a reply which exits early does not pass.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from pathlib import Path


def _lower(limit: int, value: int) -> None:
    # Some systems refuse some limits (macOS: address space); the wall clock still holds there.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(limit, (value, value))


def main() -> None:
    """Run one job."""
    job = json.load(sys.stdin)
    passed = Path.cwd() / "passed"
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, job["cpu_s"])
    _lower(resource.RLIMIT_AS, job["memory_bytes"])
    _lower(resource.RLIMIT_FSIZE, job["file_bytes"])
    _lower(resource.RLIMIT_NOFILE, 32)
    _lower(resource.RLIMIT_NPROC, 0)  # no further processes or threads (root is exempt)
    scope: dict[str, object] = {"__name__": "reply"}
    exec(compile(job["code"], "reply.py", "exec"), scope)  # noqa: S102 - the purpose of this file
    exec(compile(job["tests"], "tests.py", "exec"), scope)  # noqa: S102
    passed.write_text(job["nonce"], encoding="utf-8")


if __name__ == "__main__":
    main()
