"""Freed memory goes back to the operating system."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

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


def test_without_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_IS_LINUX", False)
    assert heap.trim() is False


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
