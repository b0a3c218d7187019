"""Prompts are judged before they are locked away, and none of them may be public."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError, DataValidationError, PromptTooLongError
from specdecode.workload import Prompt
from specdecode.workload.held_out import (
    Comparison,
    Limits,
    always_checked,
    compare,
    longest,
    refuse_invalid,
)
from specdecode.workload.similarity import ngrams_of
from specdecode.workload.text import character_shingles
from tests.workload.examples import ByteTokenizer, prompt, scrambled

RUN = scrambled("run", 13)
EXACT = {"type": "exact", "answers": ["yes"]}


def test_prompts_that_share_nothing_are_let_through_and_measured() -> None:
    found = compare([prompt("new")], [prompt("old"), prompt("older")])

    assert found == Comparison(prompts=2, largest_overlap=0.0, largest_jaccard=0.0)


@pytest.mark.parametrize(
    ("held_out", "public", "why"),
    [
        (prompt("same"), prompt("same", "something else"), "ids of their own"),
        (prompt("new", "One two, three!"), prompt("old", "one TWO three"), "same text is public"),
        (
            prompt("new", f"first {RUN}"),
            prompt("old", f"{scrambled('much', 90)} {RUN} last"),
            "13-word runs",
        ),
        (
            prompt("new", "please tell me the colour of the sea"),
            prompt("old", "please tell me the colour of the sky"),
            "nearly a public prompt",
        ),
    ],
    ids=["id", "text", "passage", "near duplicate"],
)
def test_what_is_public_is_refused_by_id_and_never_quoted(
    held_out: Prompt, public: Prompt, why: str
) -> None:
    fine = [prompt("fine")]
    with pytest.raises(DataValidationError, match=why) as told:
        compare([*fine, held_out], [prompt("other"), public])

    assert told.value.ids == (held_out.prompt_id,)
    assert held_out.text not in str(told.value)


def test_the_system_message_counts_as_text() -> None:
    public = prompt("old", "short question", system=RUN)

    with pytest.raises(DataValidationError, match="13-word runs"):
        compare([prompt("new", f"{RUN} and more")], [public])


def test_a_run_of_twelve_words_is_no_leak_and_thirteen_are() -> None:
    twelve = " ".join(RUN.split()[:12])
    public = [prompt("old", f"{RUN} {scrambled('old', 60)}")]

    assert compare([prompt("new", f"{twelve} {scrambled('new', 60)}")], public).largest_overlap == 0
    with pytest.raises(DataValidationError, match="13-word runs"):
        compare([prompt("new", f"{RUN} {scrambled('new', 60)}")], public)


def test_limits_say_how_much_is_too_much() -> None:
    held_out, public = [prompt("new", f"{RUN} a b")], [prompt("old", f"{RUN} c d e")]

    found = compare(held_out, public, Limits(jaccard=1.0, overlap=0.5))
    assert found.largest_overlap == pytest.approx(1 / 3)
    with pytest.raises(DataValidationError, match="13-word runs"):
        compare(held_out, public, Limits(jaccard=1.0, overlap=0.33))


@pytest.mark.parametrize("limits", [{"jaccard": 0}, {"jaccard": 1.1}, {"overlap": 1.0}])
def test_limits_that_refuse_nothing_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must lie in"):
        Limits(**limits)


def test_a_comparison_with_nothing_is_no_comparison() -> None:
    with pytest.raises(ConfigError, match="no public prompt to compare with"):
        compare([prompt("new")], [])


TEXTS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40).map(" ".join)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.lists(TEXTS, min_size=1, max_size=5))
def test_the_numbers_are_those_of_comparing_every_pair(own: list[str], others: list[str]) -> None:
    """By the exact definitions, without the shortcuts."""
    held_out = [prompt(f"h{i}", text) for i, text in enumerate(own)]
    public = [prompt(f"p{i}", text) for i, text in enumerate(others)]
    grams = ngrams_of({p.prompt_id: p.text for p in (*held_out, *public)})
    pairs = [(h.prompt_id, p.prompt_id) for h in held_out for p in public]
    shares = [
        len(grams[h] & grams[p]) / min(len(grams[h]), len(grams[p])) if grams[h] & grams[p] else 0
        for h, p in pairs
    ]
    shingles = {p.prompt_id: character_shingles(p.text) for p in (*held_out, *public)}
    indices = [len(shingles[h] & shingles[p]) / len(shingles[h] | shingles[p]) for h, p in pairs]
    if max(shares) > 0.99 or max(indices) == 1:
        with pytest.raises(DataValidationError):
            compare(held_out, public, Limits(jaccard=1.0, overlap=0.99))
    else:
        found = compare(held_out, public, Limits(jaccard=1.0, overlap=0.99))
        assert found.largest_overlap == pytest.approx(max(shares))
        assert found.largest_jaccard == pytest.approx(max(indices))


@pytest.mark.parametrize(
    ("prompts", "why"),
    [
        ([prompt("a", "Same text"), prompt("b", "same, text")], "same wording occurs twice"),
        ([prompt("a", category="chat")], "no checker, although"),
        ([prompt("a", checker=EXACT)], "single right answer is not written down"),
        ([prompt("a", "Write to jo@firm.com")], "looks like personal data"),
        (
            [prompt("a", reference=["x"], checker={"type": "regex", "pattern": "x?"})],
            "an empty reply passes",
        ),
        ([prompt("a", reference=["yes", "no"], checker=EXACT)], "a reference fails its own"),
    ],
)
def test_prompts_that_measure_their_own_mistakes_are_refused(
    prompts: Sequence[Prompt], why: str
) -> None:
    fine = prompt("fine", category="other", reference=["yes"], checker=EXACT)
    with pytest.raises(DataValidationError, match=why) as told:
        refuse_invalid([fine, *prompts], ["chat"] if "no checker" in why else [])

    assert told.value.ids == tuple(p.prompt_id for p in prompts)


def test_good_prompts_are_let_through_with_and_without_a_checker() -> None:
    refuse_invalid(
        [prompt("a", reference=["yes", "YES."], checker=EXACT), prompt("b", category="open")],
        ["chat"],
    )


def test_a_category_promises_a_checker_when_all_its_public_prompts_have_one() -> None:
    checked = prompt("a", category="sums", reference=["yes"], checker=EXACT)
    mixed = [
        prompt("b", category="chat", reference=["yes"], checker=EXACT),
        prompt("c", category="chat"),
    ]

    assert always_checked([checked, *mixed, prompt("d", category="open")]) == {"sums"}
    assert always_checked([]) == set()


def test_every_prompt_must_leave_room_for_its_reply() -> None:
    prompts = [prompt("short", "x"), prompt("long", "x" * 50)]
    tokens = len("<user></><assistant>") + 50

    assert longest(prompts, ByteTokenizer(), tokens + 6, 6) == tokens
    with pytest.raises(PromptTooLongError, match=rf"1 prompts exceed .*long \({tokens}\)"):
        longest(prompts, ByteTokenizer(), tokens + 6, 7)
