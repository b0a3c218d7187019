"""A bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import io
import logging

from rich.console import Console

from specdecode.workload.progress import progress


def run(console=None):
    with progress("measure", 3, 1, console) as advance:
        advance("p1")
        advance("p2")


def test_a_pipe_gets_log_lines_and_no_bar_even_where_colour_is_forced(capsys, caplog, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with caplog.at_level(logging.INFO, "specdecode.measure"):
        run()

    assert capsys.readouterr() == ("", "")
    assert [record.getMessage() for record in caplog.records] == [
        "measure: 2 to do, 1 already there",
        "measure: 3 of 3, about 0 s left (p2)",
    ]


def test_a_terminal_gets_a_bar(caplog):
    screen = io.StringIO()
    run(Console(file=screen, force_terminal=True, width=120))

    assert "3/3" in screen.getvalue()
    assert not caplog.records
