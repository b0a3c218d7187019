"""`specdecode generate --rows` and the audit of what it wrote."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import WORDS


@pytest.fixture
def prompts(tmp_path):
    """A file of nine prompts: more than are decoded together."""
    path = tmp_path / "prompts.jsonl"
    lines = [
        {"question_id": f"p{i}", "category": "chat", "turns": [" ".join(WORDS[i : i + 3])]}
        for i in range(9)
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


@pytest.fixture
def generate(specdecode, tiny_target):
    def run(text, *arguments):
        return specdecode(
            "generate", text, "--target", tiny_target, "--dtype", "float32", "--device", "cpu",
            "--draft", "early-exit:1", "--verification", "token", "--max-tokens", 12,
            "--temperature", 1, "--seed", 0, *arguments,
        )  # fmt: skip

    return run


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_set_of_prompts_becomes_rows_whose_steps_the_audit_reads(
    specdecode, tiny_target, generate, prompts, tmp_path
):
    path = tmp_path / "rows.jsonl"
    done = generate(prompts, "--rows", path, "--trace")
    rows = read(path)

    assert done.code == 0
    assert "token: 9 replies" in done.out
    assert "steps recorded" in done.out
    assert [row["prompt_id"] for row in rows] == [f"p{i}" for i in range(9)]
    assert {row["category"] for row in rows} == {"chat"}
    audit = ("audit", path, "--target", tiny_target, "--dtype", "float32")
    known = specdecode(*audit, "--draft", "early-exit:1")
    read_tokens = sum(len(step["draft_tokens"]) for row in rows for step in row["trace"])
    assert known.code == 11  # few tokens decide nothing
    assert "token: the draft is undecided" in known.out
    assert f"{read_tokens} coins read; 0 of" in known.out


def test_a_folder_and_plain_decoding_as_control(generate, prompts, tmp_path):
    path = tmp_path / "rows.jsonl"
    found = generate(prompts.parent, "--compare", "--rows", path, "--json").document

    assert {arm: facts["replies"] for arm, facts in found["arms"].items()} == {
        "plain": 9,
        "token": 9,
    }
    assert found["arms"]["plain"]["acceptance_rate"] is None
    assert found["arms"]["token"]["steps_recorded"] == 0  # not asked for
    assert found["rows"] == str(path)
    assert len(read(path)) == 18


def test_one_prompt_becomes_one_row_also_where_it_looks_like_nothing_on_disk(generate, tmp_path):
    path = tmp_path / "rows.jsonl"
    text = "the old brick house " * 20  # too long for the name of a file

    assert generate(text, "--rows", path).code == 0
    assert len(read(path)) == 1


def test_greedy_replies_are_said_to_tell_nothing_about_the_draft(generate, prompts, tmp_path):
    done = generate(prompts, "--temperature", 0, "--rows", tmp_path / "rows.jsonl", "--trace")

    assert "add --temperature 1" in done.out


@pytest.mark.parametrize(
    ("text", "arguments", "told"),
    [
        ("the house", ("--rows", "rows.parquet"), ".jsonl"),
        ("the house", ("--rows", "nowhere/rows.jsonl"), "cannot be written"),
        ("", ("--rows", "rows.jsonl"), "the prompt is empty"),
        ("nowhere.jsonl", ("--rows", "rows.jsonl"), "no such file"),
        ("the house", ("--rows", "rows.jsonl", "--logprobs", 2, "--json"), "--logprobs"),
    ],
)
def test_what_cannot_become_rows_is_refused_before_any_work(
    generate, tmp_path, monkeypatch, *, text, arguments, told
):
    monkeypatch.chdir(tmp_path)
    done = generate(text, *arguments)

    assert done.code == 2
    assert told in done.err
    assert list(tmp_path.glob("rows*")) == []
