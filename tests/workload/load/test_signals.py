"""Signals during a load run, and whose they are afterwards."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from specdecode.workload.load.client import on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("sent", [False, True])
def test_a_signal_is_the_callers_again_after_the_run(number, sent):
    def callers(*_):
        raise AssertionError("not during the run")

    async def run():
        halted = asyncio.Event()
        with on_signals(halted.set):
            if sent:
                os.kill(os.getpid(), number)
                await asyncio.wait_for(halted.wait(), 10)

    before = signal.signal(number, callers)
    try:
        asyncio.run(run())
        assert signal.getsignal(number) is callers
    finally:
        signal.signal(number, before)
