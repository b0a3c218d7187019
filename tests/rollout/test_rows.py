"""A request as a row: what it is called, what it asked for, and whether it becomes one at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.audit.rows import read_rows
from specdecode.errors import ConfigError, DataValidationError
from specdecode.governance.live.units import conversation_of
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import to_records
from specdecode.measurement.source import TableSource
from specdecode.rollout.observation import asked_of, record_of
from specdecode.rollout.rows import conclude, unjudged
from specdecode.rollout.sampling import sampling_of
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_lines import Item, line_of
from specdecode.rollout.spool_reader import read_spool
from specdecode.rollout.spool_rows import rows_of
from specdecode.rollout.spool_snapshot import Piece, Snapshot
from specdecode.rollout.state import RolloutState
from tests.rollout.factories import (
    CANARY,
    END,
    FULL,
    JSON,
    SHADOW,
    START,
    asked,
    delta,
    event,
    watched,
)

WHOLE = (delta("hel"), delta("lo"), END)


def test_a_row_says_what_was_asked_and_what_came():
    row = record_of(asked(4, "block", headers={"X-Specdecode-Category": "chat"}), watched(*WHOLE))

    assert row.request_id == "c1/000004/greedy/block"
    assert row.prompt_id == "c1/000004"
    assert conversation_of(row.prompt_id) == "c1"
    assert (row.stage, row.profile, row.category) == ("canary", "0.25", "chat")
    assert (row.prompt_tokens, row.output_tokens, row.finish_reason) == (3, 5, "stop")
    assert (row.ttft_s, row.e2e_s, row.tpot_s) == (2.0, 4.0, 0.5)
    assert (row.steps, row.drafted, row.accepted) == (2, 8, 3)
    assert row.acceptance_histogram == [0, 1, 1, 0, 0]
    assert row.started_at == START
    assert row.error is None
    assert row.output_text is None


@pytest.mark.parametrize(
    ("state", "stage", "step"), [(SHADOW, "shadow", None), (CANARY, "canary", "0.25"),
                                 (FULL, "watch", None)], ids=["shadow", "canary", "full"]
)  # fmt: skip
def test_a_row_belongs_to_the_stage_of_the_state(state, stage, step):
    found = asked(0, state=state)

    assert (found["stage"], found["profile"]) == (stage, step)


def test_nothing_is_under_judgement_in_mode_off():
    with pytest.raises(ConfigError, match="nothing is under judgement"):
        asked(0, state=RolloutState())


def test_a_failed_request_has_its_reason_and_no_latencies():
    row = record_of(asked(), watched(delta("a"), error="disconnected: reset"))

    assert row.error == "disconnected: reset"
    assert (row.ttft_s, row.e2e_s, row.output_tokens, row.steps) == (None,) * 4


def test_a_reply_cut_by_the_context_does_not_contradict_the_length_asked_for():
    short = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
    usage = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}})
    reply = watched(delta("a"), short, usage, b"data: [DONE]\n\n")

    assert record_of(asked(), reply).finish_reason == "context"  # 8 were asked for
    exactly = asked(body={"temperature": 0, "max_tokens": 5})
    assert record_of(exactly, reply).finish_reason == "length"


def test_more_tokens_than_were_asked_for_are_a_failure_and_no_contradiction():
    row = record_of(asked(body={"max_tokens": 4}), watched(*WHOLE))

    assert row.error == "overlong: 5 tokens where 4 were asked for"
    assert row.output_tokens is None


def test_ids_that_are_not_as_many_as_counted_are_left_out():
    chunk = delta("a", token_ids=[1, 2])

    assert record_of(asked(), watched(chunk, END, keep_ids=True)).output_token_ids is None


class TestSampling:
    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({}, {"name": "sampled"}),
            ({"temperature": None}, {"name": "sampled"}),
            ({"temperature": 0}, {"name": "greedy", "temperature": 0}),
            ({"temperature": 0.0, "seed": 3}, {"name": "greedy", "temperature": 0.0}),
            ({"temperature": 0.7, "top_p": 0.9}, {"name": "sampled", "temperature": 0.7,
                                                  "top_p": 0.9}),
            ({"top_k": 1}, {"name": "greedy", "top_k": 1, "temperature": 0.0}),
            ({"top_k": -1}, {"name": "sampled", "top_k": 0}),
            ({"stop": "x", "max_tokens": 9}, {"name": "sampled", "stop": ["x"], "max_tokens": 9}),
            ({"max_completion_tokens": 7, "max_tokens": 9}, {"name": "sampled", "max_tokens": 9}),
            ({"max_completion_tokens": 9, "max_tokens": 7}, {"name": "sampled", "max_tokens": 9}),
            ({"max_completion_tokens": 7}, {"name": "sampled"}),
            ({"max_completion_tokens": "7", "max_tokens": 9}, {"name": "sampled",
                                                               "max_tokens": 9}),
            ({"max_tokens": "9"}, {"name": "sampled"}),
            ({"max_tokens": -9}, {"name": "sampled"}),
            ({"stream": True, "user": "u", "messages": [], "model": "m"}, {"name": "sampled"}),
            ({"tools": [], "response_format": {"type": "text"}, "echo": False},
             {"name": "sampled"}),
        ],
    )  # fmt: skip
    def test_is_recorded_as_the_audit_reads_it(self, body, expected):
        assert sampling_of(body) == expected

    def test_what_the_audit_cannot_apply_leaves_a_digest_and_nothing_readable(self):
        body = {"tools": [{"function": {"name": "my_secret_tool"}}], "temperature": 0}
        found = sampling_of(body)

        assert found["name"] == "greedy"
        assert len(found["other_sha256"]) == 64
        assert "secret" not in json.dumps(found)
        assert found != sampling_of({**body, "tools": [{"function": {"name": "other"}}]})

    @pytest.mark.parametrize(
        ("named", "temperature", "name"),
        [
            ("greedy", 0, "greedy"),
            ("greedy", 1, "sampled"),  # a client may not give a setting the other kind's name
            ("sampled", 0, "greedy"),
            ("creative", 1, "creative"),
            ("unknown", 1, "sampled"),
            (None, 0, "greedy"),
        ],
    )
    def test_a_name_by_the_client_counts_if_it_fits(self, named, temperature, name):
        settings_ = ("greedy", "sampled", "creative")
        headers = {} if named is None else {"x-specdecode-sampling": named}
        body = {"temperature": temperature}

        assert sampling_of(body, named, settings_)["name"] == name
        found = asked_of(body, headers, prompt_id="a", arm="b", state=CANARY, order_index=0,
                         started_at=START, settings=settings_)  # fmt: skip
        assert found["sampling"]["name"] == name

    def test_rows_whose_law_is_known_are_read_by_the_audit_and_others_refused(self):
        class Words:
            vocab_size, eos_token_ids, max_context = 100, (0,), None

            def decode(self, token_ids):
                return " ".join(map(str, token_ids))

        def row(body):
            chunk = delta("a", token_ids=[1, 2, 3, 4, 0])
            start = event({"choices": [], "prompt_token_ids": [7, 8, 9]})
            reply = watched(start, chunk, END, keep_ids=True)
            return record_of(asked(body=body), reply).model_dump()

        [read] = read_rows([row({"temperature": 0.5, "top_k": -1, "stop": "x"})], Words()).rows
        assert (read.params.temperature, read.params.stop) == (0.5, ("x",))
        assert read.output == [1, 2, 3, 4, 0]
        with pytest.raises(DataValidationError, match="other_sha256"):
            read_rows([row({"temperature": 0.5, "guided_regex": "a+"})], Words())


@pytest.mark.parametrize(
    ("text", "kept"),
    [("chat", "chat"), (" chat ", "chat"), ("", None), ("x" * 65, None), ("a\nb", None),
     ("\ud800", None), ("de", "de")],
    ids=["plain", "spaces", "empty", "long", "line break", "half a character", "short"],
)  # fmt: skip
def test_labels_of_clients_are_kept_if_they_are_labels(text, kept):
    assert asked(headers={"x-specdecode-language": text})["language"] == kept


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"messages": []}, None),
        ({"prompt": "a"}, None),
        ({"prompt": ["a"]}, None),
        ({"prompt": [1, 2, 3]}, None),
        ({"prompt": [[1, 2, 3]]}, None),
        ({"prompt": "a", "n": 1, "best_of": None}, None),
        ({"prompt": ["a", "b"]}, "several prompts"),
        ({"prompt": [[1], [2]]}, "several prompts"),
        ({"messages": [], "n": 2}, "n asks"),
        ({"prompt": "a", "best_of": 3}, "best_of asks"),
        ({"prompt": "a", "echo": True}, "echo"),
        ([], "not a JSON object"),
        (None, "not a JSON object"),
    ],
    ids=str,
)
def test_requests_that_are_not_one_reply_to_one_prompt_are_not_judged(body, why):
    found = unjudged(body)

    assert found is None if why is None else why in found


TEXT = st.text(st.characters() | st.sampled_from("\ud800\udfff\0"), max_size=8)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
FIELDS = ["temperature", "top_k", "top_p", "stop", "seed", "logit_bias", "max_tokens", "tools",
          "max_completion_tokens", "n", "odd"]  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES),
    st.dictionaries(st.sampled_from(["x-specdecode-category", "x-specdecode-sampling"]), TEXT),
    TEXT,
)
@settings(max_examples=150, deadline=None)
def test_whatever_a_client_sends_its_row_can_be_made_and_written(body, headers, prompt):
    found = asked_of(body, headers, prompt_id=f"c/{prompt}", arm="plain", state=CANARY,
                     order_index=0, started_at=START)  # fmt: skip
    row = record_of(found, watched(*WHOLE))

    line = line_of(Item("row", {"said": body}, row))
    table = rows_of(Piece(Path("rows"), 1, [line.data]))
    assert list(to_records(table)) == [row]
    assert rows_sha256(TableSource(table)) == rows_sha256([row])  # so the gate can take it
    greedy = row.sampling.get("temperature", 1.0) == 0
    assert row.sampling_name == ("greedy" if greedy else "sampled")


class TestConclusion:
    REFUSED = (b'{"error": {"message": "bad"}}',)

    def ended(self, folder, watch, **options):
        with Spool(folder) as spool:
            spool.begin(asked(1, "block", SHADOW))
            kept = conclude(spool, asked(1, "block", SHADOW), watch, **options)
        rows = read_spool(folder)
        assert (rows.num_rows == 1) == (kept is not None)
        return kept

    def test_a_reply_is_a_row_with_hash_and_length_beside(self, tmp_path):
        row = self.ended(tmp_path, watched(*WHOLE), extra={"more": 1})

        assert row.error is None
        [line] = Snapshot(tmp_path).lines("row")
        assert line["extra"]["chars"] == 5
        assert line["extra"]["more"] == 1
        assert "hello" not in (tmp_path / "rows-00000001.jsonl").read_text()

    def test_a_failure_is_a_row(self, tmp_path):
        assert self.ended(tmp_path, watched(delta("a"))).error.startswith("no-done")

    def test_a_refusal_that_any_server_would_give_is_none(self, tmp_path):
        refused = watched(*self.REFUSED, status=400, headers=JSON)

        assert self.ended(tmp_path, refused, partner="other") is None
        [line] = Snapshot(tmp_path).lines("refused")
        assert (line["why"], line["retract"]) == ("HTTP 400", ["other"])

    def test_a_refusal_of_what_the_other_arm_answered_is_a_failure(self, tmp_path):
        refused = watched(*self.REFUSED, status=400, headers=JSON)

        row = self.ended(tmp_path, refused, accepted_elsewhere=True)
        assert row.error == "http-4xx: HTTP 400: bad"

    def test_a_reply_that_the_client_left_is_none_but_its_cost_is_kept(self, tmp_path):
        left = watched(delta("hel"), error="cancelled: the client left")

        assert self.ended(tmp_path, left) is None
        [line] = Snapshot(tmp_path).lines("cancelled")
        assert (line["arm"], line["chars"], line["stage"]) == ("block", 3, "shadow")
