"""Prompts are read as written, and a malformed line is named by file, line and field."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from specdecode.errors import PromptFileError, UserError
from specdecode.workload import Prompt, load_prompts

GOOD = {"question_id": "a", "category": "chat", "turns": ["Hello there"]}


def write(path: Path, *lines: object) -> Path:
    path.write_text(
        "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines), "utf-8"
    )
    return path


def test_reads_a_spec_bench_line_with_defaults(tmp_path: Path) -> None:
    file = write(
        tmp_path / "question.jsonl",
        {"question_id": 81, "category": "qa", "turns": ["Who?"], "reference": ["Me"]},
    )

    (prompt,) = load_prompts(file)

    assert prompt.prompt_id == "81"
    assert (prompt.difficulty, prompt.language) == ("normal", "en")
    assert prompt.reference == ("Me",)
    assert prompt.checker is None
    assert prompt.messages == [{"role": "user", "content": "Who?"}]


def test_reads_a_folder_in_name_order_and_skips_blank_lines(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", {**GOOD, "question_id": "b"}, "")
    write(tmp_path / "a.jsonl", "", {**GOOD, "question_id": "a", "system": "Be brief."})

    first, second = load_prompts(tmp_path)

    assert (first.question_id, second.question_id) == ("a", "b")
    assert first.messages[0] == {"role": "system", "content": "Be brief."}
    assert first.text == "Be brief.\nHello there"


@pytest.mark.parametrize(
    ("line", "field", "says"),
    [
        ("{not json", None, "not valid JSON at column 2"),
        ("[1, 2]", None, "expected a JSON object, found list"),
        ('{"question_id": NaN}', None, "NaN is not JSON"),
        ("[" * 100_000, None, "not readable as JSON"),
        ('{"question_id": "x", "question_id": "y"}', "question_id", "occurs twice"),
        ({**GOOD, "category": None}, "category", "valid string"),
        ({k: v for k, v in GOOD.items() if k != "turns"}, "turns", "required but missing"),
        ({**GOOD, "turns": "text"}, "turns", "tuple"),
        ({**GOOD, "turns": []}, "turns", "at least 1"),
        ({**GOOD, "turns": ["a", "b"]}, "turns", "has 2 turns"),
        ({**GOOD, "turns": [7]}, "turns[0]", "valid string"),
        ({**GOOD, "turns": ["  \n "]}, "turns[0]", "is empty"),
        ({**GOOD, "turns": [unicodedata.normalize("NFD", "é")]}, "turns[0]", "NFC"),
        ({**GOOD, "turns": ["\ud800"]}, "turns[0]", "surrogate"),
        ({**GOOD, "turns": ["a\x00b"]}, "turns[0]", "control character"),
        ({**GOOD, "system": ""}, "system", "is empty"),
        ({**GOOD, "question_id": "a/b"}, "question_id", "pattern"),
        ({**GOOD, "question_id": True}, "question_id", "valid string"),
        ({**GOOD, "difficulty": "easy"}, "difficulty", "normal"),
        ({**GOOD, "language": "English"}, "language", "pattern"),
        ({**GOOD, "reference": []}, "reference", "at least 1"),
        ({**GOOD, "refrence": ["x"]}, "refrence", "not a known field"),
        ({**GOOD, "checker": {"answers": ["x"]}}, "checker.type", "discriminator"),
        ({**GOOD, "checker": {"type": "vibes"}}, "checker.type", "vibes"),
        ({**GOOD, "checker": "exact"}, "checker", "dictionary"),
        ({**GOOD, "checker": {"type": "exact", "answers": []}}, "checker.answers", "at least 1"),
        ({**GOOD, "checker": {"type": "exact", "answers": ["!?"]}}, "checker.answers", "punctuat"),
        (
            {**GOOD, "checker": {"type": "exact", "answers": ["x"], "fuzzy": True}},
            "checker.fuzzy",
            "not a known field",
        ),
        ({**GOOD, "checker": {"type": "contains"}}, "checker", "'all' or 'any'"),
        ({**GOOD, "checker": {"type": "numeric", "value": "many"}}, "checker.value", "number"),
        ({**GOOD, "checker": {"type": "regex", "pattern": "(a"}}, "checker.pattern", "regular exp"),
        (
            {**GOOD, "checker": {"type": "json_schema", "schema": {"type": "objekt"}}},
            "checker.schema",
            "not a valid JSON schema, at type",
        ),
        (
            {**GOOD, "checker": {"type": "json_schema", "schema": {"items": {"$ref": "#/x"}}}},
            "checker.schema",
            "$ref is not supported",
        ),
        (
            {**GOOD, "checker": {"type": "runs", "language": "perl", "tests": "1"}},
            "checker.language",
            "python",
        ),
        (
            {**GOOD, "checker": {"type": "runs", "tests": "assert f("}},
            "checker.tests",
            "not valid Python",
        ),
    ],
)
def test_a_malformed_line_is_named(
    tmp_path: Path, line: object, field: str | None, says: str
) -> None:
    file = write(tmp_path / "p.jsonl", {**GOOD, "question_id": "first"}, line)

    with pytest.raises(PromptFileError) as caught:
        load_prompts(file)

    assert (caught.value.path, caught.value.line, caught.value.field) == (file, 2, field)
    assert says in str(caught.value)
    assert f"{file}, line 2" in str(caught.value)
    assert isinstance(caught.value, UserError)


def test_a_duplicate_id_names_both_places(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {**GOOD, "question_id": 7})
    second = write(tmp_path / "b.jsonl", {**GOOD, "question_id": "x"}, {**GOOD, "question_id": "7"})

    with pytest.raises(PromptFileError, match=r"already used at .*a\.jsonl, line 1") as caught:
        load_prompts(tmp_path)

    assert (caught.value.path, caught.value.line) == (second, 2)


def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_bytes(json.dumps(GOOD).encode() + b"\n" + b'{"question_id": "caf\xe9"}\n')

    with pytest.raises(PromptFileError, match="line 2: byte 21 is not UTF-8"):
        load_prompts(file)


def test_a_byte_order_mark_is_refused_rather_than_decoded(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())

    with pytest.raises(PromptFileError, match="line 1"):
        load_prompts(file)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_prompts_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "p.jsonl").write_text(content)

    with pytest.raises(PromptFileError, match="holds no prompts"):
        load_prompts(tmp_path)


def test_a_missing_path_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptFileError, match="no such file or folder"):
        load_prompts(tmp_path / "nowhere")
    with pytest.raises(PromptFileError, match=r"holds no \.jsonl file"):
        load_prompts(tmp_path)


def test_later_turns_are_dropped_only_on_request(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", {**GOOD, "turns": ["first", "second"]})

    (prompt,) = load_prompts(file, first_turn_only=True)

    assert prompt.turns == ("first",)


def test_prompts_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Prompt.model_validate(GOOD).category = "other"


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
_NAMES = ("question_id", "category", "turns", "reference", "language", "checker", "system", "other")


@given(st.dictionaries(st.sampled_from(_NAMES), _JSON))
def test_any_object_is_either_a_prompt_or_a_named_error(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, object]
) -> None:
    file = write(tmp_path_factory.getbasetemp() / "any.jsonl", {**GOOD, **fields})

    try:
        prompts = load_prompts(file)
    except PromptFileError as error:
        assert error.line == 1
        assert error.field is not None
    else:
        assert len(prompts) == 1
