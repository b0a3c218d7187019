"""How the two replies of a pair compare, and what is kept of that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.rollout.pairs import (
    NOTE,
    Comparison,
    PairSummary,
    compare,
    first_difference,
    note_of,
    read_pairs,
)
from specdecode.rollout.spool import Spool
from tests.rollout.factories import END, JSON, SHADOW, asked, delta, watched


def reply(*texts, ids=None):
    chunks = [delta(text, **({"token_ids": ids} if ids else {})) for text in texts]
    return watched(*chunks, END, keep_ids=ids is not None)


def test_equal_replies_are_the_same_however_they_were_cut():
    found = compare(reply("hel", "lo"), reply("h", "ello"))

    assert found.same is True
    assert (found.first_character, found.first_token) == (None, None)
    assert found.chars == (5, 5)
    assert found.e2e_s.ratio == 1.0


def test_the_first_difference_is_found_in_characters_and_tokens():
    found = compare(reply("hello", ids=[1, 2, 3, 4, 5]), reply("help", ids=[1, 2, 3, 9, 9]))

    assert found.same is False
    assert found.first_character == 3
    assert found.first_token == 3


def test_latencies_are_compared_candidate_to_baseline():
    found = compare(reply("a", "b", "c", "d"), reply("a", "bcd"))

    assert found.same is True
    assert found.e2e_s == (6.0, 4.0)
    assert found.e2e_s.ratio == pytest.approx(2 / 3)


@pytest.mark.parametrize("failed", ["baseline", "candidate"])
def test_a_pair_with_a_failure_is_not_compared(failed):
    good, bad = reply("a"), watched(delta("a"))

    assert compare(*((bad, good) if failed == "baseline" else (good, bad))) is None


def test_replies_without_output_are_neither_same_nor_different():
    body = b'{"choices": [{"finish_reason": "stop", "message": {"content": ""}}]}'
    empty = watched(body, headers=JSON, streaming=False)

    assert compare(empty, empty).same is None
    assert compare(empty, reply("a")).same is None


@given(st.text(), st.text(), st.text())
def test_the_first_difference_is_where_a_common_beginning_ends(common, one, other):
    place = first_difference(common + one, common + other)

    if one == other:
        assert place is None
    else:
        a, b = common + one, common + other
        assert place >= len(common)
        assert a[:place] == b[:place]
        assert a[place : place + 1] != b[place : place + 1]


def test_a_comparison_survives_the_spool_and_holds_no_text(tmp_path):
    pairs = [(reply("hello"), reply("hello")), (reply("hello"), reply("help"))]
    with Spool(tmp_path) as spool:
        for number, (one, other) in enumerate(pairs):
            note = note_of(compare(one, other), asked(number, state=SHADOW))
            assert Comparison.from_json(note) == compare(one, other)
            spool.note(NOTE, **note)
        sampled = asked(2, state=SHADOW, body={"temperature": 1})
        spool.note(NOTE, **note_of(compare(reply("x"), reply("y")), sampled))
        spool.note("else", prompt_id="no pair")

    found = read_pairs(tmp_path).to_json()
    assert found["greedy"]["pairs"] == 2
    assert (found["greedy"]["same"], found["greedy"]["same_share"]) == (1, 0.5)
    assert found["sampled"]["pairs"] == 1
    assert found["last_differing"] == [{"prompt_id": "c0/000001", "character": 3, "token": None}]
    assert found["greedy"]["ratio"]["e2e_s"] == pytest.approx(1.0)
    assert "hel" not in (tmp_path / "rows-00000001.jsonl").read_text()
    assert read_pairs(tmp_path, manifest_sha256="b" * 64).to_json()["greedy"]["pairs"] == 0


def test_no_pairs_have_no_share():
    found = PairSummary().to_json()

    assert found["greedy"]["same_share"] is None
    assert found["greedy"]["ratio"]["e2e_s"] is None
