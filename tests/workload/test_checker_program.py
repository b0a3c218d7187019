"""Code from a reply passes only when its tests ran to the end within the limits."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode.workload.checkers import Runs, check
from specdecode.workload.checkers.program import code_of, passes

TESTS = "assert f(2) == 4"
GOOD = "def f(x):\n    return x * 2\n"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (GOOD, GOOD),
        (f"Sure!\n```python\n{GOOD}```\nBye", GOOD),
        (f"```\npip install x\n```\n```py\n{GOOD}```", GOOD),
        (f"```\n{GOOD}```", GOOD),
        (f"```python\n{GOOD}", GOOD),
        (f"```Python title='x'\n{GOOD}```", GOOD),
        ("no code", "no code"),
    ],
)
def test_code_is_taken_out_of_its_fence(reply: str, expected: str) -> None:
    assert code_of(reply) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (f"```python\n{GOOD}```", 1.0),
        ("```python\ndef f(x):\n    return x + 3\n```", 0.0),
        ("```python\ndef f(x)\n```", 0.0),
        ("I cannot do that.", 0.0),
        ("", 0.0),
        ("def f(x):\n    raise SystemExit(0)", 0.0),
        ("import os\nos._exit(0)", 0.0),
        ("import sys\nsys.exit(0)", 0.0),
        ("def f(x):\n    return 4\n\x00", 0.0),
        ("f = lambda x: 4 #\ud800", 0.0),
    ],
)
def test_only_code_whose_tests_hold_passes(reply: str, expected: float) -> None:
    assert check(Runs(tests=TESTS), reply) == expected


def test_an_endless_loop_is_ended() -> None:
    began = time.monotonic()

    assert not passes("while True: pass", TESTS, wall_s=1.0)
    assert time.monotonic() - began < 60


def test_memory_is_limited() -> None:
    assert not passes("x = bytearray(2 * 2**30)\nf = lambda x: 4", TESTS)


def test_files_are_limited_and_do_not_stay() -> None:
    assert not passes("open('big', 'wb').write(bytes(8 * 2**20))\nf = lambda x: 4", TESTS)
    assert passes("open('small', 'w').write('x')\nf = lambda x: 4", TESTS)
    assert not Path("small").exists()


def test_the_environment_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "x")

    assert passes("import os\nf = lambda x: 4", "assert 'A_SECRET' not in os.environ")


def test_processes_left_behind_are_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid_file)!r}, 'w').write(str(p.pid))\n"
        "f = lambda x: 4\n"
    )

    started = passes(code, TESTS)  # refused by the process limit unless the user is root

    if started:
        pid = int(pid_file.read_text())
        until = time.monotonic() + 60
        while _alive(pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert not _alive(pid)
    else:
        assert not pid_file.exists()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A killed orphan stays a zombie until its adoptive parent looks; that is dead enough.
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text())
def test_no_text_makes_it_raise(reply: str) -> None:
    assert check(Runs(tests=TESTS), reply) == 0.0
