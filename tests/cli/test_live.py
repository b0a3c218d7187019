"""On a terminal the replies grow before the reader's eyes; in a pipe nothing moves."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from specdecode import Engine, SamplingParams
from specdecode.cli.comparison import describe_reply
from specdecode.cli.live import Lane, decode_lanes, show_replies
from specdecode.models import load_model

PARAMS = SamplingParams(max_tokens=10, temperature=0.0, ignore_eos=True)


@pytest.fixture(scope="module")
def lanes(tiny_target):
    model = load_model(str(tiny_target), "cpu", "float32")
    return [
        Lane("plain", Engine.load(model)),
        Lane("speculative", Engine.load(model, "early-exit:1")),
    ]


def screen(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100)


def test_both_ways_give_the_same_replies(lanes):
    shown = decode_lanes(lanes, "the old brick", PARAMS, screen(terminal=True))
    piped = decode_lanes(lanes, "the old brick", PARAMS, screen(terminal=False))
    for name in ("plain", "speculative"):
        assert shown[name].token_ids == piped[name].token_ids


def test_a_terminal_sees_both_lanes_and_their_pace(lanes):
    console = screen(terminal=True)
    decode_lanes(lanes, "the old brick", PARAMS, console)
    drawn = console.file.getvalue()
    assert "plain" in drawn
    assert "speculative" in drawn
    assert "tokens/s" in drawn


def test_a_pipe_sees_nothing_until_the_end(lanes):
    console = screen(terminal=False)
    decode_lanes(lanes, "the old brick", PARAMS, console)
    assert console.file.getvalue() == ""


def test_a_reply_that_looks_like_markup_is_printed_as_it_is(lanes):
    reply = describe_reply(lanes[0].engine.generate(["the old brick"], PARAMS)[0])
    for terminal in (True, False):
        console = screen(terminal=terminal)
        show_replies({"plain": reply | {"text": "[bold]x[/] [/wrong]"}}, console)
        assert "[bold]x[/] [/wrong]" in console.file.getvalue()
