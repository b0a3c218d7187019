"""Who gets which arm: by a secret, for ever, and never back."""

from __future__ import annotations

import re
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.rollout.assignment import (
    Assignment,
    opening,
    prompt_id_of,
    salt_of,
)

SALT = b"a salt of the tests"
ASSIGNMENT = Assignment(SALT)
SHARES = st.floats(0, 1)
NAMES = st.text(min_size=1, max_size=40)


def user(name, **headers):
    return ASSIGNMENT.subject({"x-specdecode-user": name, **headers}, {})


def chat(*contents, **body):
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]
    return {"messages": messages, **body}


class TestShare:
    @given(NAMES, SHARES, SHARES)
    def test_a_larger_share_moves_nobody_back(self, name, one, other):
        small, large = sorted((one, other))

        assert user(name).within(large) or not user(name).within(small)

    @given(NAMES)
    def test_nothing_is_nobody_and_everything_is_everybody(self, name):
        assert not user(name).within(0.0)
        assert user(name).within(1.0)

    @pytest.mark.parametrize("share", [0.05, 0.25, 0.5])
    def test_a_share_is_met(self, share):
        inside = sum(user(f"user {i}").within(share) for i in range(20_000)) / 20_000

        assert abs(inside - share) < 4 * (share * (1 - share) / 20_000) ** 0.5

    def test_another_salt_draws_others(self):
        other = Assignment(b"another salt of the tests")
        both = [
            (user(f"{i}").within(0.5), other.subject({"x-specdecode-user": f"{i}"}, {}).within(0.5))
            for i in range(2000)
        ]

        assert 0.45 < sum(one == two for one, two in both) / 2000 < 0.55

    def test_the_label_says_nothing_about_the_side(self):
        subjects = [user(f"user {i}") for i in range(4000)]
        low = [s.within(0.5) for s in subjects if s.label < "8"]

        assert 0.46 < sum(low) / len(low) < 0.54

    def test_the_label_does_not_hold_the_name(self):
        assert re.fullmatch(r"[0-9a-f]{16}", user("somebody@example.org").label)


class TestKey:
    def test_a_user_comes_before_a_conversation(self):
        assert user("u", **{"x-specdecode-conversation": "c"}) == user("u")

    def test_a_conversation_comes_before_its_opening(self):
        headers = {"x-specdecode-conversation": "c"}

        assert ASSIGNMENT.subject(headers, chat("a")) == ASSIGNMENT.subject(headers, chat("b"))

    def test_a_user_and_a_conversation_of_one_name_are_two(self):
        assert user("x") != ASSIGNMENT.subject({"x-specdecode-conversation": "x"}, {})

    @pytest.mark.parametrize("field", ["user", "safety_identifier"])
    def test_the_field_of_the_api_counts_as_a_user(self, field):
        found = ASSIGNMENT.subject({}, chat("hello", **{field: "u"}))

        assert found == user("u")

    @given(st.lists(st.text(), min_size=1, max_size=7))
    def test_a_chat_stays_where_it_began(self, contents):
        found = {
            ASSIGNMENT.subject({}, chat(*contents[: turn + 1])) for turn in range(len(contents))
        }

        assert len(found) == 1

    def test_a_system_prompt_alone_does_not_make_two_chats_one(self):
        system = {"role": "system", "content": "be brief"}
        bodies = [{"messages": [system, {"role": "user", "content": text}]} for text in "ab"]

        assert len({ASSIGNMENT.subject({}, body) for body in bodies}) == 2

    @pytest.mark.parametrize("prompt", ["text", [1, 2], None, "half \ud800"])
    def test_a_completion_goes_by_its_prompt(self, prompt):
        found = ASSIGNMENT.subject({}, {"prompt": prompt})

        assert found == ASSIGNMENT.subject({}, {"prompt": prompt, "max_tokens": 3})
        assert found != ASSIGNMENT.subject({}, {"prompt": "another"})

    @pytest.mark.parametrize("messages", [None, 7, "text", [], [1], [{"role": 3}]])
    def test_what_is_no_chat_still_gets_a_side(self, messages):
        assert 0 <= ASSIGNMENT.subject({}, {"messages": messages}).point < 1
        assert opening(messages) == messages


class TestPromptId:
    def test_it_begins_with_what_belongs_together(self):
        subject = user("u")

        assert prompt_id_of({}, subject, "r1") == f"{subject.label}/r1"

    def test_a_client_may_name_the_prompt(self):
        headers = {"x-specdecode-prompt-id": "gsm8k/17"}

        assert prompt_id_of(headers, user("u"), "r1") == "gsm8k/17/r1"

    @given(st.text())
    def test_whatever_it_is_named_the_last_part_is_the_request(self, name):
        found = prompt_id_of({"x-specdecode-prompt-id": name}, user("u"), "r1")

        assert found.rpartition("/")[2] == "r1"
        assert len(found) <= 130
        assert found.isprintable()


class TestSalt:
    def test_it_is_made_once_for_its_owner_only(self, tmp_path):
        first = salt_of(tmp_path / "salt")

        assert salt_of(tmp_path / "salt") == first
        assert len(first) >= 32
        assert stat.S_IMODE((tmp_path / "salt").stat().st_mode) == 0o600

    def test_two_folders_have_two(self, tmp_path):
        assert salt_of(tmp_path / "a") != salt_of(tmp_path / "b")

    def test_one_that_can_be_guessed_is_refused(self, tmp_path):
        (tmp_path / "salt").write_text("short\n")
        with pytest.raises(ConfigError, match="can be guessed"):
            salt_of(tmp_path / "salt")

    def test_a_place_that_cannot_hold_it(self, tmp_path):
        with pytest.raises(ConfigError, match="cannot be written"):
            salt_of(tmp_path / "nowhere" / "salt")
