"""Withheld prompts are recognised by their words, also by who has digests only."""

from __future__ import annotations

import json

import pytest

from specdecode.distil.withheld import Withheld, digests_of, read_withheld, write_withheld
from specdecode.errors import ConfigError

LONG = "Write a short poem about the old lighthouse keeper who never once saw the morning sun"
SHORT = "What is the capital of Peru?"
TINY = "Why?"
SIGNS = "?! 🙂"


@pytest.fixture(scope="module", params=["", "5a17"])
def withheld(request):
    return Withheld((digests_of([LONG, SHORT, TINY, SIGNS], request.param),))


@pytest.mark.parametrize(
    ("turn", "reply", "met"),
    [
        (LONG, "", True),
        ("", f"Sure: {LONG.upper()}!", True),
        ("short poem about the old lighthouse keeper who never once saw the morning", "", True),
        ("poem about the old lighthouse keeper who never once saw the morning", "", False),
        ("Tell me: what is the CAPITAL of Peru", "", True),
        ("What is the capital of France?", "of Peru", False),
        ("why", "", True),
        (" ?!  🙂", "", True),
        ("?!", "", False),
        ("", "", False),
        ("Why is the sky blue?", "Why? Because.", False),
        ("Hello", "Hi", False),
    ],
)
def test_what_is_met(withheld, turn, reply, met):
    assert withheld.meets(turn=turn, reply=reply) is met


def test_digests_say_what_the_prompts_say_and_hold_no_words(tmp_path):
    plain, out = tmp_path / "held_out.jsonl", tmp_path / "withheld.json"
    rows = [
        {"question_id": str(i), "category": "chat", "turns": [t]}
        for i, t in enumerate((LONG, SHORT))
    ]
    plain.write_text("".join(json.dumps(row) + "\n" for row in rows))

    write_withheld(plain, out)

    for path in (plain, out):
        found = Withheld((read_withheld(path),))
        assert found.meets(turn=SHORT, reply="")
        assert found.meets(turn="", reply=LONG)
        assert not found.meets(turn="What is the capital of Chile?", reply="")
    assert not any(word in out.read_text() for word in ("lighthouse", "capital", "peru"))


def test_two_holders_digests_of_one_text_differ():
    first, second = (digests_of([LONG], salt) for salt in ("a", "b"))
    assert not first.whole & second.whole


@pytest.mark.parametrize("texts", [[], [" "]])
def test_nothing_to_compare_with_is_no_check(texts):
    with pytest.raises(ConfigError):
        digests_of(texts, "")


@pytest.mark.parametrize("content", ["{}", "[", '{"schema": "specdecode.withheld/1"}'])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "withheld.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="make it with `specdecode distil withhold"):
        read_withheld(path)
