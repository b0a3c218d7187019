"""The trace of the demonstration, as it ships and as it is made."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.demo.model import WORDS
from pipelines.demo.traffic import (
    CATEGORIES,
    PER_S,
    REQUESTS,
    TRACE,
    made_trace,
    main,
    read_trace,
)
from specdecode.errors import PromptFileError

LINE = {
    "at_s": 1.0,
    "conversation": "c1",
    "category": "chat",
    "difficulty": "normal",
    "language": "en",
    "prompt": "the cat",
    "max_tokens": 4,
    "temperature": 0.0,
}


def test_the_trace_that_ships_is_the_one_that_is_made():
    assert read_trace(TRACE) == made_trace()


def test_it_has_the_rate_and_the_mix_that_its_datasheet_states():
    trace = read_trace(TRACE)
    categories = Counter(asked.category for asked in trace)

    assert len(trace) == REQUESTS
    assert len(trace) / trace[-1].at_s == pytest.approx(PER_S, rel=0.1)
    assert len({asked.conversation for asked in trace}) == len(trace)
    for category, share in CATEGORIES.items():
        assert categories[category] / len(trace) == pytest.approx(share, abs=0.05)
    datasheet = TRACE.with_name("DATASHEET.md").read_text("utf-8")
    for category, number in categories.items():
        assert f"| {category} | {number} |" in datasheet
    assert f"{sum(asked.temperature > 0 for asked in trace)} are sampled" in datasheet


def test_prompts_are_words_that_the_model_knows_and_fit_its_context():
    for asked in read_trace(TRACE):
        words = asked.prompt.split()
        assert set(words) <= set(WORDS)
        assert len(words) + asked.max_tokens < 256


@given(st.integers(1, 40), st.floats(0.1, 1000), st.integers(0, 5))
def test_times_rise_and_the_same_seed_gives_the_same_trace(requests, per_s, seed):
    trace = made_trace(requests, per_s, seed)

    assert len(trace) == requests
    assert [asked.at_s for asked in trace] == sorted(asked.at_s for asked in trace)
    assert trace == made_trace(requests, per_s, seed)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        pytest.param("at_s", -1, "line 2, field 'at_s'", id="time"),
        pytest.param("at_s", 0.5, "is earlier than the line before", id="order"),
        pytest.param("conversation", "a/b", "line 2, field 'conversation'", id="conversation"),
        pytest.param("temperature", "warm", "line 2, field 'temperature'", id="temperature"),
        pytest.param("colour", "red", "line 2, field 'colour'", id="unknown field"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, field, value, said):
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in (LINE, LINE | {field: value})))

    with pytest.raises(PromptFileError, match=said):
        read_trace(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"", "holds no request", id="empty"),
        pytest.param(b"\xff", "cannot be read", id="bytes"),
        pytest.param(None, "cannot be read", id="missing"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path, content, said):
    path = tmp_path / "trace.jsonl"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(PromptFileError, match=said):
        read_trace(path)


def test_the_command_writes_one(tmp_path, capsys):
    path = tmp_path / "deep/trace.jsonl"

    assert main([str(path), "--requests", "7", "--per-second", "2"]) == 0

    assert read_trace(path) == made_trace(7, 2.0)
    assert "wrote 7 requests" in capsys.readouterr().err


def test_the_command_refuses_a_rate_of_nothing(tmp_path):
    with pytest.raises(SystemExit):
        main([str(tmp_path / "t"), "--per-second", "0"])
