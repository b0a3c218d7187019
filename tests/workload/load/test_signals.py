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
                await asyncio.wait_for(halted.wait(), 60)

    before = signal.signal(number, callers)
    try:
        asyncio.run(run())
        assert signal.getsignal(number) is callers
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_last_turn_of_the_loop_is_not_lost(number):
    told = []

    async def run():
        with on_signals(lambda: told.append(number)):
            os.kill(os.getpid(), number)  # and nothing is waited for any more

    asyncio.run(run())
    assert told == [number]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_acts_as_it_would_without_the_run(number):
    told = []

    async def run():
        with on_signals(lambda: told.append("halt")):
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            await asyncio.sleep(0)

    before = signal.signal(number, lambda *_: told.append("callers"))
    try:
        asyncio.run(run())
    finally:
        signal.signal(number, before)
    assert told == ["halt", "callers"]
