"""`specdecode distil`: one command, its parts, and what it refuses."""

from __future__ import annotations

import json

import pytest

from specdecode.cli.distil_options import withheld_from
from tests.distil.conftest import write_talking_model


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return write_talking_model(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "held_out.jsonl"
    row = {"question_id": "a", "category": "chat", "turns": ["Name three rivers of the north."]}
    path.write_text(json.dumps(row) + "\n")
    return path


@pytest.fixture
def small(target, prompts):
    """Options of a run that takes seconds."""
    return (
        *("--target", target, "--withheld", prompts, "--device", "cpu", "--dtype", "float32"),
        *("--tokens", 60, "--held-out", 4, "--user-tokens", 6, "--reply-tokens", 8),
        *("--passes", 1),
    )


def test_it_makes_a_draft_and_exports_it(specdecode, small, target, tmp_path):
    out, portable = tmp_path / "draft", tmp_path / "portable"

    done = specdecode("distil", *small, "--layers", 1, "--head", 12, "--out", out, "--json")

    assert done.code == 0, done.err
    acceptance = done.document["evaluation"]["drafts"]["trained"]
    assert all(0 <= acceptance[t]["expected_acceptance"] <= 1 for t in ("1", "0.7", "0"))
    assert "tokens written" in done.err
    again = specdecode("distil", *small, "--layers", 1, "--head", 12, "--out", out)
    assert again.code == 0
    assert "expected acceptance on" in again.out
    assert f"draft in {out}" in again.out
    options = ("--target", target, "--draft", out, "--to", portable, "--device", "cpu")
    exported = specdecode("distil", "export", *options, "--dtype", "float32", "--json")
    assert exported.code == 0, exported.err
    assert set(exported.document["evaluation"]["drafts"]) == {"draft", "exported"}
    assert (portable / "config.json").is_file()


def test_it_compares_sizes(specdecode, small, tmp_path):
    options = (
        *("--layers", "1", "--heads", "12,full", "--lengths", "2", "--rounds", 1),
        *("--timed-prompts", 1, "--max-tokens", 4, "--out", tmp_path),
    )
    done = specdecode("distil", "compare", *small, *options)
    assert done.code == 0, done.err
    assert "| layers-1-head-12 |" in done.out
    assert "| layers-1-head-full |" in done.out


def test_digests_are_written_and_read(specdecode, small, prompts, tmp_path):
    digests = tmp_path / "withheld.json"
    made = specdecode("distil", "withhold", prompts, "--out", digests, "--json")
    assert (made.code, made.document["prompts"]) == (0, 1)

    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    done = specdecode("distil", *small, "--confirmation", wrong, "--out", tmp_path / "draft")

    assert done.code == 2
    assert "distil withhold" in done.err
    assert not (tmp_path / "draft").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--head", "many"), "--head many: write a number of tokens"),
        (("--head", "99"), "has 22: give fewer, or `full`"),
        (("--minutes", "0"), "minutes above 0"),
        (("--prompts", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_what_it_refuses(specdecode, small, tmp_path, options, says):
    done = specdecode("distil", *small, *options, "--out", tmp_path / "draft")
    assert done.code == 2
    assert says in done.err


def test_it_says_that_confirmation_prompts_are_not_compared(prompts, tmp_path, monkeypatch, capsys):
    here = withheld_from([prompts], None)
    assert capsys.readouterr().err == ""

    monkeypatch.chdir(tmp_path)
    alone = withheld_from([prompts], None)

    assert "no digests of confirmation prompts" in " ".join(capsys.readouterr().err.split())
    assert (len(here.pages), len(alone.pages)) == (2, 1)


def test_without_prompts_to_withhold_nothing_is_trained(specdecode, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = specdecode("distil", "--target", target, "--out", tmp_path / "draft")
    assert done.code == 2
    assert "--withheld" in done.err
    assert not (tmp_path / "draft").exists()


def test_digests_are_named_so_that_they_are_read_back(specdecode, prompts, tmp_path):
    done = specdecode("distil", "withhold", prompts, "--out", tmp_path / "withheld.txt")
    assert done.code == 2
    assert "ends in .json" in done.err
