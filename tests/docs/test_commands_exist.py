"""Every command of README and docs exists as it is written, and a test runs it or says why not."""

from __future__ import annotations

import ast
import functools
from collections import Counter

import pytest

from tests.docs.commands import OTHER, PAGES, ROOT, SHELL, Command, commands_of, fences
from tests.docs.grammar import fault
from tests.docs.outcomes import LISTED, NOT_RUN, TESTED

PROGRAMS_OF_OTHERS = {
    *("prefect", "pip", "git", "dvc", "curl", "grep", "kubectl", "vllm"),
    *("export", "mkdir", "openssl", "chmod"),
}
SHOWN = {page: commands_of(page) for page in PAGES}
ALL = {command.text for page in PAGES for command in SHOWN[page]}


@functools.cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """What is wrong with a command; asked once, however many pages show it."""
    return functools.cache(lambda words: fault(words, tmp_path_factory.mktemp("scratch")))


@pytest.mark.parametrize("page", [page for page in PAGES if SHOWN[page]])
def test_commands_are_what_their_programs_accept(page, judged):
    wrong = {}
    for command in SHOWN[page]:
        for words in command.programs:
            try:
                problem = judged(tuple(words))
            except LookupError:
                assert words[0] in PROGRAMS_OF_OTHERS, f"{command.text}: which program is that?"
                continue
            if problem is not None:
                wrong[command.text] = problem
    assert wrong == {}


@pytest.mark.parametrize("page", [page for page in PAGES if SHOWN[page]])
def test_every_command_is_run_or_says_why_not(page):
    """Else add it to tests/docs/outcomes.yaml."""
    missing = [command.text for command in SHOWN[page] if command.text not in LISTED]
    assert missing == []


def test_every_command_stands_in_the_table_once():
    assert [text for text, times in Counter(LISTED).items() if times != 1] == []


def test_no_entry_is_for_a_command_that_no_page_shows():
    assert set(LISTED) - ALL == set()


@pytest.mark.parametrize("test", sorted(set(TESTED.values())))
def test_what_is_said_to_run_a_command_is_a_test(test):
    path, name = test.split("::")
    assert name in names_in(path)


def test_a_reason_is_a_sentence():
    assert all(len(reason.split()) >= 2 for reason in NOT_RUN.values())


@pytest.mark.parametrize("page", PAGES)
def test_every_block_names_its_language(page):
    assert {language for language, _ in fences(page)} <= {*SHELL, *OTHER}


def test_commands_are_found_wherever_they_stand():
    text = (
        "```console\n$ make test  # all\nspecdecode load URL \\\n  --rate 4\n```\n"
        "    curl -d '{\n      \"a\": 1}' | grep x\n"
        "```text\nmake nothing\n```\n    prose that is indented\n"
        "```bash\nA=1 git add x && git commit > log\n```\n"
    )
    assert [command.text for command in commands_of("page", text)] == [
        "make test",
        "specdecode load URL --rate 4",
        "curl -d '{ \"a\": 1}' | grep x",
        "A=1 git add x && git commit > log",
    ]


def test_a_line_is_split_into_its_programs():
    found = Command("page", "A=1 git add x && git commit -m 'a && b' > log &").programs
    assert found == [["git", "add", "x"], ["git", "commit", "-m", "a && b"]]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("specdecode generate --no-such-option x", "no-such-option"),
        ("specdecode generate", "text"),
        ("specdecode dance", "dance"),
        ("specdecode plan check a.yaml b.yaml", "b.yaml"),
        ("specdecode load URL --rate fast", "number"),
        ("python -m specdecode doctor extra", "extra"),
        ("python -m pipelines.no_such_module", "no_such_module"),
        ("python -m pipelines.demo up --fault none --speed fast", "fast"),
        ("python -m pipelines.lockfile --now", "no arguments"),
        ("make dance", "dance"),
        ("make evaluate PROFLE=smoke", "PROFLE"),
        ("make up FAULT=sleepy", "sleepy"),
        ("make soak ARGS='--hours 1'", "--hours"),
    ],
)
def test_a_command_that_does_not_exist_is_seen(line, says, tmp_path):
    (words,) = Command("page", line).programs
    assert says in fault(words, tmp_path)


def test_a_program_of_others_is_not_judged(tmp_path):
    with pytest.raises(LookupError, match="kubectl"):
        fault(["kubectl", "apply"], tmp_path)
