"""Check by running: the code of the reply passes its tests in a limited child process.

The limits (CPU, memory, file size, wall clock, empty environment, throw-away folder) guard against
accidents of a model's code. They are not a jail: code that means harm needs a container around the
whole evaluation.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from specdecode.workload.checkers.base import BaseChecker

CPU_S = 5
WALL_S = 10.0
MEMORY_BYTES = 512 * 2**20
FILE_BYTES = 2**20

_CHILD = Path(__file__).with_name("program_child.py")
# A fence that is never closed counts: replies are often cut at their token limit.
_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.M | re.S)


def code_of(reply: str) -> str:
    """The first Python block of a reply, else its first fenced block, else the whole reply."""
    blocks = [(tag.lower(), body) for tag, body in _FENCE.findall(reply)]
    for tag, body in blocks:
        if tag in ("python", "py", "python3"):
            return str(body)
    return str(blocks[0][1]) if blocks else reply


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def passes(code: str, tests: str, *, wall_s: float = WALL_S) -> bool:
    """Whether the code runs and all tests hold within the limits."""
    nonce = secrets.token_hex(16)
    job = {
        "code": code,
        "tests": tests,
        "nonce": nonce,
        "cpu_s": CPU_S,
        "memory_bytes": MEMORY_BYTES,
        "file_bytes": FILE_BYTES,
    }
    # ignore_cleanup_errors: the reply may have left odd permissions behind.
    with tempfile.TemporaryDirectory(prefix="reply-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={},
            start_new_session=True,
        )
        try:
            process.communicate(json.dumps(job).encode("ascii"), timeout=wall_s)
        except subprocess.TimeoutExpired:
            return False
        finally:
            _kill_group(process)  # also what the code left running in its group
            process.wait()
        mark = Path(folder) / "passed"
        return process.returncode == 0 and mark.is_file() and mark.read_bytes() == nonce.encode()


class Runs(BaseChecker):
    """The reply's code runs, and the tests hold after it, in a child process with limits."""

    type: Literal["runs"] = "runs"
    language: Literal["python"] = "python"
    tests: str = Field(min_length=1)

    @field_validator("tests")
    @classmethod
    def _compiles(cls, tests: str) -> str:
        try:
            compile(tests, "tests", "exec")
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"the tests are not valid Python: {error}") from error
        if not tests.strip():
            raise ValueError("the tests are empty")
        return tests

    def score(self, text: str) -> float:
        """1 when the code passes, else 0; a reply without code is a failure, not an error."""
        return float(bool(text.strip()) and passes(code_of(text), self.tests))
