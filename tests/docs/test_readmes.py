"""README.ja.md is README.md in Japanese: the same commands, parts, links and numbers."""

from __future__ import annotations

import re

import pytest

from tests.docs.commands import ROOT, commands_of, fences

ENGLISH, JAPANESE = "README.md", "README.ja.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`\n]+`")


def text(page):
    return (ROOT / page).read_text("utf-8")


def outside_blocks(page):
    return re.sub(r"^```.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL)


def test_the_commands_are_the_same_in_the_same_order():
    assert [c.text for c in commands_of(JAPANESE)] == [c.text for c in commands_of(ENGLISH)]


def test_the_parts_are_the_same():
    headings = re.compile(r"^#+ ", re.MULTILINE)
    assert headings.findall(outside_blocks(JAPANESE)) == headings.findall(outside_blocks(ENGLISH))


@pytest.mark.parametrize("language", ["python", "yaml"])
def test_examples_are_the_same_but_for_comments(language):
    def code(page):
        blocks = [block for name, block in fences(page) if name == language]
        return [re.sub(r"\s*#.*", "", block) for block in blocks]

    assert code(JAPANESE) == code(ENGLISH)


def test_links_lead_to_the_same_places():
    assert set(LINK.findall(text(JAPANESE))) - {"README.md"} == set(LINK.findall(text(ENGLISH))) - {
        "README.ja.md"
    }


def test_tables_have_as_many_lines():
    def tables(page):
        lines = outside_blocks(page).splitlines()
        return [line.count("|") for line in lines if line.startswith("|")]

    assert tables(JAPANESE) == tables(ENGLISH)


def test_code_words_are_the_same():
    named = {word for word in CODE.findall(outside_blocks(ENGLISH)) if "/" in word or "_" in word}
    assert named - set(CODE.findall(outside_blocks(JAPANESE))) == set()


def test_the_numbers_of_the_measurements_are_the_same():
    def numbers(page):
        return sorted(re.findall(r"\b\d+\.\d+\b", outside_blocks(page)))

    assert numbers(JAPANESE) == numbers(ENGLISH)


def test_it_is_japanese():
    kana = re.findall(r"[\u3040-\u30ff]", text(JAPANESE))
    assert len(kana) > 1000
