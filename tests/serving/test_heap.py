"""Freed memory goes back to the operating system."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from specdecode.cli.app import app as cli
from specdecode.serving import app, heap
from tests.serving.servers import serving, tiny_engine

BLOCK, BLOCKS = 100_000, 1000  # below glibc's least mapping: blocks lie on the heap, side by side


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc keeps holes and can give them back")
def test_holes_between_living_blocks_are_given_back() -> None:
    blocks = [b"x" * BLOCK for _ in range(BLOCKS)]
    del blocks[::2]
    process = psutil.Process()
    holding = process.memory_full_info().uss
    assert heap.trim()
    given = holding - process.memory_full_info().uss
    assert given > 0.8 * BLOCK * (BLOCKS - len(blocks))
    assert all(block == b"x" * BLOCK for block in blocks)


KEPT = """
import sys, threading, psutil
from specdecode.serving import heap

if sys.argv[1] == "shared":
    assert heap.share_one()
large = bytearray(30_000_000)
del large  # from now on glibc takes blocks of this size from the heap, and keeps 60 MB of it
uss, peak = lambda: psutil.Process().memory_full_info().uss, []

def work():
    blocks = [b"x" * 100_000 for _ in range(400)]
    peak.append(uss())

thread = threading.Thread(target=work)
thread.start()
thread.join()
heap.trim()
print(peak[0] - uss())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has a heap for every thread")
def test_the_upper_end_of_a_thread_s_heap_is_given_back_only_where_it_shares_the_main_one() -> None:
    given = {
        how: int(subprocess.check_output([sys.executable, "-c", KEPT, how], timeout=300))
        for how in ("shared", "own")
    }
    assert given["shared"] > 35_000_000
    assert given["own"] < 20_000_000  # else there is nothing to share for


def test_without_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_IS_LINUX", False)
    assert heap.trim() is False
    assert heap.share_one() is False


def test_trims_until_cancelled() -> None:
    async def watch() -> int:
        done = [0]

        def trim() -> bool:
            done[0] += 1
            return True

        task = asyncio.create_task(heap.trim_on(0.001, trim))
        while done[0] < 3:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done[0]

    assert asyncio.run(asyncio.wait_for(watch(), 30)) >= 3


def test_a_server_trims_as_long_as_it_runs(
    engine_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    async def trimming() -> None:
        seen.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    monkeypatch.setattr(app, "trim_on", trimming)
    with serving(tiny_engine(engine_folder, None)):
        assert seen == ["begun"]
    assert seen == ["begun", "ended"]


def test_serve_shares_the_heap_before_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[bool] = []
    monkeypatch.setattr(heap, "share_one", lambda: shared.append(True))

    done = CliRunner().invoke(cli, ["serve", "--target", "no/such/model", "--port", "0"])

    assert done.exit_code != 0
    assert shared == [True]
