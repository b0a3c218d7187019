"""Suffix drafts: what a search of the whole text would find, at the price of none."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode import Engine, SamplingParams
from specdecode.audit.proposals import ProposalScorer
from specdecode.drafting import make_drafter
from specdecode.drafting.base import NoDraws
from specdecode.drafting.suffix import EarlierReplies, SuffixDrafter
from specdecode.drafting.suffix_automaton import Match, SuffixAutomaton
from specdecode.models import KVCache, load_model
from tests.decoding.toys import TableNetwork, ToyModel, V
from tests.tiny_models import write_tiny_model

CPU = torch.device("cpu")
NOTHING = NoDraws("nothing is drawn here")
texts = st.lists(st.integers(0, 2), max_size=30)


def ends_of(text, piece):
    """End positions of every occurrence of `piece`."""
    size = len(piece)
    return [end for end in range(size, len(text) + 1) if text[end - size : end] == piece]


def longest_end(text, other):
    """Length of the longest end of `other` that occurs in `text`."""
    return max(k for k in range(len(other) + 1) if k == 0 or ends_of(text, other[-k:]))


def searched(text, known, most):
    """Continuation of `known` by brute force: (frequency, latest) of each follower."""
    drafted = []
    while known and len(drafted) < most:
        ends = [end for end in ends_of(text, known) if end < len(text)]
        if not ends:
            known = known[1:]
            continue
        follower = {}
        for end in ends:
            count, _ = follower.get(text[end], (0, 0))
            follower[text[end]] = (count + 1, end)
        token = max(follower, key=follower.get)
        drafted.append(token)
        known = [*known, token]
    return drafted


@settings(deadline=None)
@given(texts)
def test_the_longest_repeated_end_is_found(text):
    found = SuffixAutomaton(text).end()
    assert found.length == longest_end(text[:-1], text)


@settings(deadline=None)
@given(texts, texts)
def test_the_longest_end_of_another_text_is_found(text, other):
    assert SuffixAutomaton(text).find(other).length == longest_end(text, other)


@settings(deadline=None)
@given(texts, st.integers(1, 8))
def test_the_continuation_is_what_followed_most_often_and_latest(text, most):
    automaton = SuffixAutomaton(text)
    match = automaton.end()
    known = text[len(text) - match.length :]
    assert automaton.continuation(match, most) == searched(text, known, most)


@settings(deadline=None)
@given(texts)
def test_every_piece_knows_how_often_and_where_it_ended_last(text):
    automaton = SuffixAutomaton(text)
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            piece = text[start:end]
            match = automaton.find(piece)
            ends = ends_of(text, piece)
            assert match.length == len(piece)
            assert automaton._rank(match.state) == (len(ends), ends[-1])


def state_of(automaton):
    return {
        name: getattr(automaton, f"_{name}")
        for name in ("arcs", "link", "length", "count", "latest")
    }


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=4))
def test_changing_the_text_gives_the_automaton_of_the_new_one(versions):
    automaton = SuffixAutomaton()
    for text in versions:
        automaton = automaton.turned_into(text)
        assert automaton.text == text
        assert state_of(automaton) == state_of(SuffixAutomaton(text))


@settings(deadline=None)
@given(texts, st.integers(0, 30), texts)
def test_tokens_that_were_not_kept_leave_no_trace(text, kept, other):
    changed = [*text[:kept], *other]
    automaton = SuffixAutomaton(text)
    assert automaton.turned_into(changed) is automaton
    assert state_of(automaton) == state_of(SuffixAutomaton(changed))


def test_a_text_that_parts_long_before_its_end_is_read_anew():
    text = [i % 7 for i in range(600)]
    automaton = SuffixAutomaton(text)
    anew = automaton.turned_into([1, *text])
    assert anew is not automaton
    assert state_of(anew) == state_of(SuffixAutomaton([1, *text]))


def test_work_per_token_is_bounded_where_one_token_repeats():
    automaton = SuffixAutomaton([5] * 3000)
    assert all(len(change.chain) <= 32 for change in automaton._changes)
    assert automaton.end().length == 2999
    assert automaton.continuation(automaton.end(), 6) == [5] * 6
    states = 0
    for change in automaton._changes:
        states += len(change.gained) + len(change.redirected)
    assert states <= 2 * len(automaton._changes)


def draft(contexts, wanted, **options):
    drafter = SuffixDrafter(50, CPU, **options)
    drafter.begin(len(contexts), 100, KVCache(0, 0))
    proposal = drafter.propose(contexts, wanted, NOTHING)
    return [
        row[:length] for row, length in zip(proposal.tokens.tolist(), proposal.lengths, strict=True)
    ]


def test_a_longer_match_lets_draft_more():
    context = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert draft([[*context, 1, 2]], [8]) == [[3, 4]]
    assert draft([[*context, 1, 2, 3, 4]], [8]) == [[5, 6, 7, 8]]
    assert draft([[*context, 1, 2, 3, 4]], [3]) == [[5, 6, 7]]
    assert draft([[*context, 1, 2, 3]], [8], factor=1.5) == [[4, 5, 6, 7]]


def test_short_matches_and_rows_that_want_nothing_draft_nothing():
    assert draft([[1, 2, 3, 1], [1, 2, 3, 1, 2], [4, 5, 4, 5]], [4, 0, 4]) == [[], [], [4, 5]]
    assert draft([[1, 2, 3, 1]], [4], shortest=1) == [[2]]


def test_frequent_beats_late_and_late_beats_early():
    assert draft([[1, 2, 7, 1, 2, 7, 1, 2, 8, 1, 2]], [1]) == [[7]]
    assert draft([[1, 2, 7, 0, 1, 2, 8, 1, 2]], [1]) == [[8]]


@settings(deadline=None)
@given(context=st.lists(st.integers(0, 3), min_size=1, max_size=30), most=st.integers(0, 6))
def test_a_point_mass_is_declared_and_its_length_follows_from_the_match(context, most):
    drafter = SuffixDrafter(50, CPU)
    drafter.begin(1, 100, KVCache(0, 0))
    proposal = drafter.propose([context], [most], NOTHING)
    matched = longest_end(context[:-1], context)
    (length,) = proposal.lengths
    assert length <= min(most, matched)
    assert (length > 0) == (most > 0 and matched >= 2)
    if length:
        rows = torch.nn.functional.one_hot(proposal.tokens[0], 50).float()
        assert torch.equal(proposal.probs[0, :length], rows[:length])


@settings(deadline=None)
@given(st.lists(texts.filter(bool), min_size=1, max_size=4))
def test_a_drafter_that_goes_on_proposes_what_a_fresh_one_would(versions):
    used = SuffixDrafter(50, CPU, shortest=1)
    used.begin(1, 100, KVCache(0, 0))
    for context in versions:
        found = used.propose([context], [5], NOTHING)
        fresh = SuffixDrafter(50, CPU, shortest=1)
        assert found.tokens.tolist() == fresh.propose([context], [5], NOTHING).tokens.tolist()


def run_batch(drafter, prompts, replies):
    drafter.begin(len(prompts), 100, KVCache(0, 0))
    first = [[*p, r[0]] for p, r in zip(prompts, replies, strict=True)]
    drafter.propose(first, [1] * len(prompts), NOTHING)
    whole = [p + r for p, r in zip(prompts, replies, strict=True)]
    drafter.propose(whole, [1] * len(prompts), NOTHING)


def test_other_requests_are_not_looked_at_unless_allowed():
    drafter = SuffixDrafter(50, CPU)
    run_batch(drafter, [[1, 2]], [[3, 4, 5, 6]])
    drafter.begin(1, 100, KVCache(0, 0))
    assert drafter.propose([[9, 3, 4]], [4], NOTHING).lengths == [0]
    assert drafter._earlier.replies.text == []


def test_remembered_replies_are_proposed_in_later_batches_and_prompts_never():
    drafter = SuffixDrafter(50, CPU, remember=100)
    run_batch(drafter, [[1, 2], [20, 21]], [[3, 4, 5, 6], [10, 11, 12, 13]])
    drafter.keep_rows([1])
    in_batch = drafter.propose([[20, 21, 10, 11, 12, 13, 3, 4]], [4], NOTHING)
    drafter.begin(3, 100, KVCache(0, 0))

    later = drafter.propose([[9, 3, 4, 5], [7, 10, 11], [8, 1, 2]], [4, 4, 4], NOTHING)

    assert in_batch.lengths == [0]
    assert later.lengths == [1, 2, 0]
    assert later.tokens[:2].tolist() == [[6, 0], [12, 13]]


def test_the_longer_match_wins_and_the_own_text_in_a_tie():
    drafter = SuffixDrafter(50, CPU, remember=100)
    run_batch(drafter, [[0]], [[1, 2, 3, 7, 7]])
    drafter.begin(2, 100, KVCache(0, 0))
    found = drafter.propose([[2, 3, 8, 1, 2, 3], [1, 2, 3, 8, 1, 2, 3]], [1, 1], NOTHING)
    assert found.tokens[:, 0].tolist() == [7, 8]


@settings(deadline=None)
@given(st.lists(st.lists(texts, max_size=3), max_size=8), st.integers(1, 40))
def test_no_more_is_kept_than_allowed_and_nothing_matches_across_replies(batches, capacity):
    kept = EarlierReplies(capacity)
    for replies in batches:
        kept.add(replies)
        written = [t for t in kept.replies.text if t >= 0]
        assert len(written) <= capacity
        separators = [t for t in kept.replies.text if t < 0]
        assert len(set(separators)) == len(separators)
    newest = [r for replies in batches for r in replies if r][-1:]
    assert (
        not newest or kept.replies.text[:-1][-len(newest[0][-capacity:]) :] == newest[0][-capacity:]
    )


def test_a_separator_is_never_proposed():
    kept = EarlierReplies(50)
    kept.add([[1, 2, 3], [3, 4, 1, 2]])
    assert kept.replies.continuation(kept.replies.find([9, 1, 2, 3]), 5) == [4, 1, 2, 3, 4]
    assert kept.replies.continuation(Match(0, 0), 5) == []


@pytest.mark.parametrize("spec", ["suffix", "suffix:shared"])
def test_greedy_replies_are_the_plain_ones_in_every_batch(tmp_path, spec):
    target = load_model(write_tiny_model(tmp_path, seed=1), device="cpu", dtype="float64")
    params = SamplingParams(max_tokens=30, temperature=0, ignore_eos=True)
    prompts = [[5, 6, 7], [3, 4, 3, 4, 3], [9]]
    plain = [r.token_ids for r in Engine.load(target).generate(prompts, params)]
    engine = Engine(target, make_drafter(spec, target), "block", 6)
    for _ in range(3):
        results = engine.generate(prompts, params)
        assert [r.token_ids for r in results] == plain
    accepted = sum(r.acceptance.accepted for r in results)
    assert accepted > (60 if spec == "suffix:shared" else 20)


def test_the_audit_asks_after_every_prefix():
    reply = [1, 2, 0, 1, 2, 0, 2, 1] * 12
    drafter = SuffixDrafter(V, CPU)

    ((_, laws),) = ProposalScorer(drafter, V).score([([0, 1], reply)])

    for t in range(len(reply)):
        (alone,) = draft([[0, 1, *reply[:t]]], [1])
        expected = [float(token in alone) for token in range(V)]
        assert laws[t].exp().tolist() == expected


def test_a_batch_may_be_larger_than_the_last_one():
    engine = Engine(ToyModel(TableNetwork(1)), SuffixDrafter(V, CPU, shortest=1), "block", 3)
    params = SamplingParams(max_tokens=12, seed=1)
    alone = engine.generate([[0, 1]], params)[0].token_ids
    assert [r.token_ids for r in engine.generate([[0, 1]] * 3, params)] == [alone] * 3
