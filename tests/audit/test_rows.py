import json

import numpy as np
import pytest

from specdecode.audit.rows import read_rows
from specdecode.errors import DataValidationError
from tests.audit.toys import ToyScorer, tables

SAMPLED = {"name": "sampled", "temperature": 1.0}


def vocabulary(eos=(0,)):
    return ToyScorer(tables()[0], eos=eos)


def row(**changes):
    return {
        "prompt_id": "chat-1",
        "prompt_token_ids": [3, 4],
        "output_token_ids": [5, 6],
        "sampling": SAMPLED,
        **changes,
    }


def test_sampling_may_be_a_mapping_or_its_json_text():
    texts = [row(order_index=0), row(order_index=1, sampling=json.dumps(SAMPLED))]
    found = read_rows(texts, vocabulary()).rows

    assert found[0].params == found[1].params
    assert found[0].params.temperature == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_token_ids": None}, r"row 1 \(chat-1\): prompt_token_ids is missing"),
        ({"prompt_token_ids": []}, "no context"),
        ({"output_token_ids": "5 6"}, "output_token_ids is missing"),
        ({"output_token_ids": [5, 24]}, r"output_token_ids\[1\] is 24.*another tokenizer"),
        ({"prompt_token_ids": [-1]}, r"prompt_token_ids\[0\] is -1"),
        ({"output_token_ids": [5, 1.7]}, r"row 1 .*output_token_ids\[1\] is 1.7 \(float\)"),
        ({"output_token_ids": [True]}, r"output_token_ids\[0\] is True \(bool\)"),
        ({"output_token_ids": ["5"]}, r"output_token_ids\[0\] is '5' \(str\)"),
        ({"output_token_ids": np.array([5.0])}, r"output_token_ids\[0\] is 5.0 \(float\)"),
        ({"prompt_token_ids": ["a"]}, r"prompt_token_ids\[0\] is 'a'"),
        ({"output_token_ids": {"1": 2}}, "output_token_ids must be a list of token ids, not dict"),
        ({"output_token_ids": {5, 6}}, "must be a list of token ids, not set"),
        ({"output_token_ids": 5}, "must be a list of token ids, not int"),
        ({"order_index": "x"}, r"row 1 \(chat-1\): order_index is 'x'"),
        ({"order_index": True}, "order_index is True"),
        ({"order_index": 2**63}, "beyond 64 bits"),
        ({"order_index": 1.5}, "order_index is 1.5"),
        ({"sampling": None}, "sampling is missing"),
        ({"sampling": "{"}, "not JSON"),
        ({"sampling": {"temperature": 1.0, "typical_p": 0.9}}, r"unknown keys \['typical_p'\]"),
        ({"sampling": {"temperature": -1.0}}, "temperature"),
    ],
)
def test_a_malformed_row_is_named(changes, message):
    with pytest.raises(DataValidationError, match=message):
        read_rows([row(), row(**changes)], vocabulary())


def test_a_row_without_the_output_field_is_malformed_and_not_an_error_row():
    broken = row()
    del broken["output_token_ids"]

    with pytest.raises(DataValidationError, match="output_token_ids is missing"):
        read_rows([broken], vocabulary())


def test_failed_requests_are_counted_and_listed_but_not_judged():
    found = read_rows(
        [row(), row(error="timeout", output_token_ids=None)],
        vocabulary(),
    )

    assert found.total == 2
    assert len(found.rows) == 1
    assert found.errors == [("row 1 (chat-1)", "timeout")]
    assert not found.unjudged


@pytest.mark.parametrize("withheld", [None, []])
def test_an_output_withheld_without_an_error_is_unjudged(withheld):
    found = read_rows([row(), row(output_token_ids=withheld)], vocabulary())

    assert len(found.rows) == 1
    assert not found.errors
    assert found.unjudged[0][0] == "row 1 (chat-1)"
    assert "error was recorded" in found.unjudged[0][1]


def test_rows_are_read_in_recorded_order():
    found = read_rows([row(order_index=2), row(order_index=0), row(order_index=1)], vocabulary())

    assert [r.order_index for r in found.rows] == [0, 1, 2]
    with pytest.raises(DataValidationError, match=r"row 0 .*order_index is missing"):
        read_rows([row(), row(order_index=1)], vocabulary())


def test_whole_numbers_of_arrays_are_token_ids():
    found = read_rows(
        [row(output_token_ids=np.array([5, 6], dtype=np.int32), order_index=np.int64(3))],
        vocabulary(),
    ).rows[0]

    assert (found.output, found.order_index) == ([5, 6], 3)
    assert type(found.output[0]) is int
    assert read_rows([row(output_token_ids=list(np.array([5, 6])))], vocabulary()).rows


@pytest.mark.parametrize(
    "first",
    [
        row(),
        row(prompt_id=None),
        row(order_index=4, seed=1),
        row(prompt_id=None, order_index=4),
    ],
)
def test_a_row_repeated_is_not_more_evidence(first):
    with pytest.raises(DataValidationError, match=r"row 1.*repeats row 0"):
        read_rows([first] * 300, vocabulary())


def test_one_place_in_the_order_holds_one_output():
    with pytest.raises(DataValidationError, match=r"row 1.*repeats row 0"):
        read_rows([row(order_index=4), row(order_index=4, output_token_ids=[7])], vocabulary())


@pytest.mark.parametrize(
    "other",
    [
        {"output_token_ids": [7]},
        {"seed": 2},
        {"order_index": 2},
        {"prompt_id": "chat-2"},
        {"sampling": {"temperature": 0.5}},
    ],
)
@pytest.mark.parametrize("known", [{}, {"prompt_id": None, "prompt_token_ids": [9]}])
def test_several_samples_of_one_prompt_are_several_rows(known, other):
    base = {"order_index": 1, **known} if "order_index" in other else known

    assert len(read_rows([row(**base), row(**(base | other))], vocabulary()).rows) == 2


def test_a_context_that_is_too_long_for_the_target_is_refused():
    short = vocabulary()
    short.max_context = 3

    with pytest.raises(DataValidationError, match="context of 3"):
        read_rows([row()], short)


class TestEnds:
    def test_a_recorded_end_token_stays(self):
        found = read_rows([row(output_token_ids=[5, 0], finish_reason="stop")], vocabulary())

        assert found.rows[0].output == [5, 0]

    def test_an_unrecorded_end_token_is_restored(self):
        found = read_rows([row(finish_reason="stop")], vocabulary())

        assert found.rows[0].output == [5, 6, 0]

    def test_a_cut_at_the_length_limit_needs_nothing(self):
        found = read_rows([row(finish_reason="length")], vocabulary())

        assert found.rows[0].output == [5, 6]

    def test_with_several_end_tokens_an_unrecorded_one_cannot_be_guessed(self):
        found = read_rows([row(finish_reason="stop")], vocabulary(eos=(0, 1)))

        assert not found.rows
        assert "record the end token" in found.unjudged[0][1]

    def test_a_stop_string_must_still_be_in_the_tokens(self):
        sampling = {**SAMPLED, "stop": ["fg"]}  # the toy decodes token 5 to "f", 6 to "g"
        kept = read_rows([row(sampling=sampling, finish_reason="stop")], vocabulary())
        cut = read_rows(
            [row(sampling=sampling, finish_reason="stop", output_token_ids=[5])], vocabulary()
        )

        assert kept.rows[0].output == [5, 6]
        assert "removed from the end" in cut.unjudged[0][1]


class TestRefusals:
    """What was recorded is not, or not all, of what was drawn."""

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"prompt_tokens": 900}, "read 900 prompt tokens and 2 are recorded"),
            ({"output_tokens": 5}, "emitted 5 tokens and 2 are recorded"),
            ({"output_text": "zzfg"}, "missing from the beginning"),
            ({"output_text": "xy"}, "do not spell output_text"),
            ({"output_token_ids": [5, 0, 6]}, "1 tokens follow the end token at position 1"),
            ({"output_token_ids": [5, 0, 0, 0]}, "padding"),
            ({"retokenised": True}, "made from text"),
            ({"output_token_ids": None, "output_text": "fg"}, "only the output's text"),
            ({"sampling": {**SAMPLED, "max_tokens": 1}}, "where max_tokens is 1"),
        ],
    )
    def test_a_row_is_refused_with_its_reason(self, changes, why):
        found = read_rows([row(), row(prompt_id="chat-2", **changes)], vocabulary())

        assert len(found.rows) == 1
        [(label, reason)] = found.unjudged
        assert label == "row 1 (chat-2)"
        assert why in reason
        assert dict(found.why_unjudged) == {reason: 1}

    @pytest.mark.parametrize(
        "changes",
        [
            {"prompt_tokens": 2, "output_tokens": 2, "output_text": " fg"},
            {"output_tokens": 1, "finish_reason": "stop", "output_token_ids": [5, 0]},
            {"output_tokens": 3, "finish_reason": "stop"},  # with the end token that is restored
            {"output_text": "f", "sampling": {**SAMPLED, "stop": ["g"]}},  # cut before it
            {"output_token_ids": [5, 0, 6], "sampling": {**SAMPLED, "ignore_eos": True}},
            {"output_text": ""},
            {"prompt_tokens": None, "output_tokens": None, "output_text": None},
        ],
    )
    def test_an_honest_row_is_not(self, changes):
        found = read_rows([row(**changes)], vocabulary())

        assert not found.unjudged
        assert len(found.rows) == 1

    @pytest.mark.parametrize(("rows", "kept"), [(3, 0), (2, 2)])
    def test_an_arm_whose_every_output_begins_with_the_start_token_was_made_from_text(
        self, rows, kept
    ):
        with_start = vocabulary()
        with_start.bos_token_id = 1
        records = [row(prompt_id=f"p{n}", output_token_ids=[1, 5 + n]) for n in range(rows)]
        assert len(read_rows(records, with_start).rows) == kept
        mixed = read_rows([*records, row()], with_start)
        assert len(mixed.rows) == rows + 1

    def test_left_out_rows_are_counted_to_the_last_and_told_up_to_a_limit(self, monkeypatch):
        monkeypatch.setattr("specdecode.audit.rows.MOST_LISTED", 2)
        records = [row(prompt_id=f"p{n}", output_token_ids=None) for n in range(5)]
        records += [row(prompt_id=f"e{n}", error="timeout") for n in range(4)]
        found = read_rows(records, vocabulary())

        assert len(found.unjudged) == len(found.errors) == 2
        assert sum(found.why_unjudged.values()) == 5
        assert found.error_count == 4


class TestPrompts:
    def test_a_text_is_encoded_by_the_target(self):
        text = row(prompt="de")
        del text["prompt_token_ids"]

        assert read_rows([text], vocabulary()).rows[0].prompt == [3, 4]

    def test_recorded_ids_win_over_the_text(self):
        assert read_rows([row(prompt="zz")], vocabulary()).rows[0].prompt == [3, 4]

    @pytest.mark.parametrize(
        ("messages", "named"),
        [([{"role": "user", "content": "hi"}], "row 0 .*no chat template"), ("[", "not JSON")],
    )
    def test_what_cannot_be_encoded_is_named(self, messages, named):
        chat = row(messages=messages)
        del chat["prompt_token_ids"]

        with pytest.raises(DataValidationError, match=named):
            read_rows([chat], vocabulary())


def test_a_stored_row_comes_back_as_it_was():
    trace = [
        {"draft_tokens": [5], "num_accepted": 1, "emitted": [5, 6], "draft_probs": [0.25],
         "accept_coins": [0.5]}
    ]  # fmt: skip
    sampling = {"temperature": 0.3, "logit_bias": {"3": 1.5}, "stop": ["x"]}
    told = row(
        sampling=sampling, category="chat", trace=trace, verification="token", prompt_id="\ud800"
    )
    found = read_rows([told, row(prompt_id="b")], vocabulary())
    first = found.rows[0]

    assert first.params.logit_bias == {3: 1.5}
    assert first.params.stop == ("x",)
    assert first.strata == {"category": "chat"}
    assert (first.rule, first.prompt_id) == ("token", "\ud800")
    assert first.steps[0].drafted == (5,)
    assert first.steps[0].accept_coins == (0.5,)
    assert list(found.rows) == [found.rows[0], found.rows[1]] == found.rows[:]
    assert found.rows[-1] == found.rows[1]
    with pytest.raises(IndexError, match="row 2 of 2"):
        found.rows[2]
