"""Progress in a log: at the start, now and then, at the end, and never after it."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from specdecode.cli.log_lines import told_in_lines


def test_a_line_comes_now_and_then_until_it_is_over():
    stream, asked, enough = io.StringIO(), [], threading.Event()

    def now():
        asked.append(1)
        if len(asked) == 3:
            enough.set()
        return f"step {len(asked)} [of many]"

    with (
        pytest.raises(KeyError),
        told_in_lines(Console(file=stream), "load", "to [somewhere]", now, every_s=0.001),
    ):
        assert enough.wait(120)
        raise KeyError
    lines = stream.getvalue().splitlines()

    assert lines[0] == "load: begins, to [somewhere]"
    assert lines[1:4] == [f"load: step {i} [of many]" for i in (1, 2, 3)]
    assert lines[-1] == f"load: over, step {len(asked)} [of many]"
    assert len(lines) == len(asked) + 1
    assert not any(thread.name == "progress" for thread in threading.enumerate())
