"""Checkers accept right answers in any dress, refuse wrong ones, and never raise on a reply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from specdecode.workload.checkers import MAX_REPLY_CHARACTERS, Checker, check
from specdecode.workload.checkers.base import BaseChecker
from specdecode.workload.checkers.values import first_json_object, last_number
from tests.workload.examples import prompt

ADAPTER: TypeAdapter[Any] = TypeAdapter(Checker)


def score(spec: dict[str, Any], reply: str) -> float | None:
    return check(ADAPTER.validate_python(spec), reply)


def test_no_checker_is_none_and_not_a_failed_check() -> None:
    assert check(None, "anything") is None
    assert check(prompt("p"), "anything") is None


def test_a_prompt_is_checked_by_its_checker() -> None:
    item = prompt("p", checker={"type": "exact", "answers": ["Paris"]})

    assert check(item, "Paris") == 1.0
    assert check(item, "Rome") == 0.0


@pytest.mark.parametrize(
    ("answers", "reply", "expected"),
    [
        (["Paris"], " paris. ", 1.0),
        (["two", "2"], "2", 1.0),
        (["New  York"], "new\nyork!", 1.0),
        (["ＡＢＣ"], "abc", 1.0),
        (["東京"], "東京。", 1.0),
        (["straße"], "STRASSE", 1.0),
        (["3.5"], "35", 0.0),
        (["-5"], "5", 0.0),
        (["Paris"], "It is Paris", 0.0),
        (["Paris"], "", 0.0),
    ],
)
def test_exact(answers: list[str], reply: str, expected: float) -> None:
    assert score({"type": "exact", "answers": answers}, reply) == expected


@pytest.mark.parametrize(
    ("spec", "reply", "expected"),
    [
        ({"all": ["cat", "dog"]}, "A DOG and a Cat", 1.0),
        ({"all": ["cat", "dog"]}, "only a cat", 0.0),
        ({"any": ["cat", "dog"]}, "only a cat", 1.0),
        ({"any": ["cat", "dog"]}, "a bird", 0.0),
        ({"all": ["cat"], "any": ["dog", "cow"]}, "cat and cow", 1.0),
        ({"all": ["cat"], "any": ["dog", "cow"]}, "cat", 0.0),
        ({"all": ["4"]}, "The answer is 14.", 0.0),
        ({"all": ["4"]}, "4 apples", 1.0),
        ({"all": ["a+b?"]}, "so A+B? yes", 1.0),
    ],
)
def test_contains(spec: dict[str, Any], reply: str, expected: float) -> None:
    assert score({"type": "contains", **spec}, reply) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [("All good", 1.0), ("I am SORRY", 0.0), ("", 0.0), ("  \n", 0.0)],
)
def test_not_contains_fails_on_silence(reply: str, expected: float) -> None:
    assert score({"type": "not_contains", "none": ["sorry"]}, reply) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("The answer is 42.", 42),
        ("7 + 5 = 12", 12),
        ("1,234", 1234),
        ("1,234,567.89 in all", 1234567.89),
        ("-3", -3),
        ("so x = −3.5", -3.5),
        ("10-3", 3),
        ("12,5 Liter", 12.5),
        ("1, 2, 3", 3),
        ("1,2,3", 3),
        ("４２です", 42),
        ("答えは42です", 42),
        ("1\u202f234", 1234),
        ("$3.50", 3.5),
        ("about 1e3", 1000),
        ("it is .5", 0.5),
        ("wait ...42", 42),
        ("**42**", 42),
        ("room B12", None),
        ("no number", None),
        ("", None),
    ],
)
def test_last_number(reply: str, expected: float | None) -> None:
    assert last_number(reply) == expected


def test_numeric_tolerance_is_absolute() -> None:
    spec = {"type": "numeric", "value": 3.14, "tolerance": 0.01}

    assert score(spec, "roughly 3.15") == 1.0
    assert score(spec, "roughly 3.16") == 0.0
    assert score({"type": "numeric", "value": 42}, "41 or 42") == 1.0
    assert score({"type": "numeric", "value": 42}, "42 or 43") == 0.0
    assert score({"type": "numeric", "value": 42}, "9" * 5000) == 0.0


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure:\n```json\n{"a": {"b": []}}\n``` done {"c": 2}', {"a": {"b": []}}),
        ('{oops} {"a": 1}', {"a": 1}),
        ('[{"a": 1}]', {"a": 1}),
        ('{"a": NaN}', None),
        ('{"a": 1', None),
        ("{" * 5000, None),
        ('{"a":' * 5000, None),
        ('{"a": ' + "9" * 5000 + "}", None),
        ("none", None),
    ],
)
def test_first_json_object(reply: str, expected: object) -> None:
    assert first_json_object(reply) == expected


def test_json_schema() -> None:
    spec = {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "required": ["age"],
            "properties": {"age": {"type": "integer", "multipleOf": 0.5}},
        },
    }

    assert score(spec, 'Here: {"age": 3}') == 1.0
    assert score(spec, '{"age": "3"}') == 0.0
    assert score(spec, '{"name": "x"}') == 0.0
    assert score(spec, "no json") == 0.0
    assert score(spec, '{"age": 1' + "0" * 400 + "}") in (0.0, 1.0)


def test_regex_sees_composed_text_and_gives_up_on_endless_backtracking() -> None:
    assert score({"type": "regex", "pattern": "^caf.$"}, "cafe\u0301") == 1.0
    assert score({"type": "regex", "pattern": "b"}, "aaa") == 0.0
    assert score({"type": "regex", "pattern": "(a+)+$"}, "a" * 5000 + "b") == 0.0
    assert score({"type": "regex", "pattern": r"(?s)(.*1.*2)+3$"}, "1212" * 3000) == 0.0


def test_only_the_beginning_of_an_endless_reply_is_read() -> None:
    reply = "x" * MAX_REPLY_CHARACTERS + "needle"

    assert score({"type": "contains", "any": ["needle"]}, reply) == 0.0


SPECS: list[dict[str, Any]] = [
    {"type": "exact", "answers": ["1"]},
    {"type": "contains", "all": ["1"], "any": ["a"]},
    {"type": "not_contains", "none": ["1"]},
    {"type": "regex", "pattern": r"(\w+\s?)*!"},
    {"type": "numeric", "value": 1},
    {"type": "json_schema", "schema": {"type": "object", "minProperties": 1}},
]
ODD = st.text() | st.text(alphabet='{}[]":,.0123456789eE+-abc\u202f\x00\ud800 \n')


@settings(deadline=None)
@given(spec=st.sampled_from(SPECS), reply=ODD)
def test_any_reply_gets_a_score_between_0_and_1(spec: dict[str, Any], reply: str) -> None:
    result = score(spec, reply)

    assert result is not None
    assert 0.0 <= result <= 1.0


def test_a_checker_without_a_score_cannot_be_made() -> None:
    class Forgetful(BaseChecker):
        pass

    with pytest.raises(TypeError, match="score"):
        Forgetful()
