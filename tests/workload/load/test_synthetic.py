"""Prompts made to a length, and salts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.workload.load.prompts import WrittenPrompt
from specdecode.workload.load.salt import SALT_IDS, SaltedPrompt, salt_for
from specdecode.workload.load.synthetic import SMALLEST_ID, WORDS, SyntheticPrompt

keys = st.text(min_size=1, max_size=8)


def test_the_words_are_distinct_and_plain():
    assert len(set(WORDS)) == len(WORDS) > 300
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)


@settings(deadline=None)
@given(st.integers(0, 2**40), keys, st.integers(1, 300))
def test_a_prompt_has_as_many_words_or_ids_as_tokens_were_asked(seed, key, tokens):
    words = SyntheticPrompt(seed, key, tokens)
    ids = SyntheticPrompt(seed, key, tokens, vocab_size=1000)

    assert len(words.text().split(" ")) == tokens
    assert words.text() == SyntheticPrompt(seed, key, tokens).text()
    assert words.token_ids() is None
    assert len(ids.token_ids()) == tokens
    assert all(SMALLEST_ID <= token < 1000 for token in ids.token_ids())


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5), max_size=4),
    st.lists(st.integers(0, 5), max_size=4),
    st.integers(1, 40),
)
def test_shared_blocks_are_shared_text_and_nothing_else_is(first, second, tokens):
    a = SyntheticPrompt(0, "a", tokens, tuple(first), block_tokens=8)
    b = SyntheticPrompt(0, "b", tokens, tuple(second), block_tokens=8)
    words_a, words_b = a.text().split(), b.text().split()
    shared = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        shared += 8

    assert words_a[:shared] == words_b[:shared]
    assert (a.identity == b.identity) == (words_a == words_b)


def test_a_last_block_that_is_not_full_still_belongs_to_its_hash():
    long = SyntheticPrompt(0, "a", 16, (1, 2), block_tokens=8)
    short = SyntheticPrompt(0, "b", 11, (1, 2), block_tokens=8)

    assert long.text().split()[:11] == short.text().split()


@pytest.mark.parametrize(("tokens", "vocab"), [(0, None), (5, SMALLEST_ID)])
def test_impossible_prompts_are_refused(tokens, vocab):
    with pytest.raises(ConfigError):
        SyntheticPrompt(0, "a", tokens, vocab_size=vocab)


def test_a_salt_stands_at_the_very_beginning_for_both_apis():
    salted = SaltedPrompt(WrittenPrompt("question", "be brief"), "abc")

    assert salted.text().startswith("[abc] be brief")
    assert [m["content"] for m in salted.messages()] == ["[abc] be brief", "question"]
    assert salted.token_ids() is None


def test_salted_ids_begin_differently_and_stay_valid():
    prompt = SyntheticPrompt(0, "a", 30, vocab_size=5000)
    one, other = (SaltedPrompt(prompt, salt_for(0, n)).token_ids() for n in (1, 2))

    assert one[:SALT_IDS] != other[:SALT_IDS]
    assert one[SALT_IDS:] == other[SALT_IDS:] == prompt.token_ids()
    assert set(one) == set(prompt.token_ids())


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.integers(0, 10**6))
def test_salts_are_reproducible_and_differ(seed, index):
    assert salt_for(seed, index) == salt_for(seed, index)
    assert salt_for(seed, index) != salt_for(seed, index + 1)
    assert len(salt_for(seed, index)) == 10


@settings(deadline=None)
@given(st.text(max_size=9), st.text(max_size=9) | st.none(), st.text(max_size=9))
def test_written_prompts_are_equal_only_if_their_parts_are(user, system, other):
    same = WrittenPrompt(user, system).identity == WrittenPrompt(other, system).identity
    assert same == (user == other)
    assert WrittenPrompt(user, None).identity != WrittenPrompt(user, "").identity
