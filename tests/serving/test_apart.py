from __future__ import annotations

import subprocess
import sys

import pytest

from specdecode.serving.apart import apart

COUNT = """
import os, time, torch
from specdecode.serving.apart import apart

def threads():
    return len(os.listdir("/proc/self/task"))

def compute():
    torch.ones(1_000_000).exp()

torch.set_num_threads(3)
before = threads()
apart(compute)
until = time.monotonic() + 60
while threads() > before and time.monotonic() < until:
    time.sleep(0.01)  # they end a moment after it
print(threads() - before)
compute()
print(threads() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_no_thread_of_the_computation_is_left():
    told = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, check=True, text=True)

    assert told.stdout.split() == ["0", "2"]  # the second: what this thread would have kept


def test_it_returns_and_raises_what_the_work_does():
    assert apart(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        apart(lambda: 1 // 0)
